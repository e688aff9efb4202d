"""What was once told wrongly: ``data/once_wrong.toml``."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib

from tests.explain import compose
from vlmguard_explain.advice import flags
from vlmguard_explain.advice.steps import cause, steps
from vlmguard_explain.command import explain

ROWS = tomllib.loads((Path(__file__).parent / "data" / "once_wrong.toml").read_text())["row"]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_told(tmp_path, row):
    log = f"{row.get('before', '')}\n"
    if "raised" in row:
        log += compose.traced(row["raised"], None, tuple(row.get("frames", ())))
    (tmp_path / "train.log").write_text(log)
    answer, _ = explain([str(tmp_path / "train.log")])
    assert (answer.known.code if answer.known else answer.verdict) == row["told"]
    if answer.known is None:
        return
    said = [flags.say(step, answer.facts) for step in steps(answer.known, answer.facts)]
    assert said[0].startswith(row.get("first", ""))
    assert row.get("cause", "") in cause(answer.known, answer.facts)
    assert "never" not in row or not any(row["never"] in step for step in said)
