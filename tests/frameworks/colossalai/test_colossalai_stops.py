"""A stop on one rank, seen from the launcher: every rank is gone, and the last lines say why."""

from __future__ import annotations

import pytest

from tests.frameworks.colossalai import launch
from tests.frameworks.colossalai.cases import ONE_RANK

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200),
              pytest.mark.drawn(1)]
CASES = {
    "policy": ({"steps": ONE_RANK, "env": {"VLMGUARD_RULES": "VG205=error"}}, "VG205", 1),
    "untouched": ({"steps": ONE_RANK, "chunks": "mixed", "env": {"VLMGUARD_RULES": "VG205=off"}},
                  "VG303", 1),
    "no-pixels": ({"steps": ["image", ["no_pixels", "image"]]}, "VG201", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_ranks_are_gone_in_ten_seconds(name):
    wish, reason, rank = CASES[name]
    done = launch.run([{"name": name, **wish}], guard=True, world=2)
    stopped = [record for record in done.records(name) if record["outcome"] == "stopped"]
    assert {record["rank"] for record in stopped} == {rank}, done.output[-3000:]
    assert done.code != 0
    assert not done.hung
    assert not done.survivors
    assert done.seconds_after(f"{stopped[0]['code']} stopped") < 10
    assert reason in done.output[done.output.rindex("Root Cause") :]
