"""Ranks that begin their training apart plan alike: a healthy run is not stopped, and its weights
are bitwise those of ranks that begin together; a broken one is mended all the same."""

from __future__ import annotations

import pytest
import torch

from tests.frameworks.trainers.cases import FSDP2
from tests.kit import trainers
from tests.kit.runs import Outcome

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900),
              pytest.mark.drawn(1)]
LATE = {"VLMGUARD_WAIT": "0.5"}
"""The last rank comes after the others have ceased to wait for it."""


WAYS = {"ddp": [], "fsdp2": FSDP2, "zero2": trainers.zero(2), "zero3": trainers.zero(3)}


def run(data: str, way: str, late: str) -> Outcome:
    words = ["--max_steps", "12", *WAYS[way], *(["--late", late] if late else [])]
    return trainers.run(
        trainers.plain(data, *words), guard=True, cold=False, extra=LATE if late else None
    )


@pytest.mark.parametrize("seconds", ["3", "6", "60"])
@pytest.mark.parametrize(
    ("way", "data"), [*((way, "image") for way in WAYS), ("zero3", "mixed")]
)
def test_a_late_rank_changes_nothing(way: str, data: str, seconds: str) -> None:
    together, late = run(data, way, ""), run(data, way, seconds)
    assert (together.returncode, late.returncode) == (0, 0), late
    assert "1 of 2 ranks had come" in late.output
    assert "had come" not in together.output
    assert not [found for found in late.findings if found["outcome"] == "stopped"]
    assert ("VG106" in together.fixed()) is (data == "mixed")
    if way != "ddp":
        assert "VG106" in {found["code"] for found in late.findings if found["outcome"] == "set"}
    for one, other in zip(together.ranks, late.ranks, strict=True):
        assert one.final.keys() == other.final.keys()
        assert all(torch.equal(one.final[name], other.final[name]) for name in one.final)
