"""The dry step, asked for by a flag: no trace of it, and what it finds is found before training."""

from __future__ import annotations

import pytest

from tests.frameworks.swift.cases import FULL, VISION
from tests.kit import swift
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200),
              pytest.mark.drawn(2)]
ASKED = ["--vlmguard-dry-step"]


def said(done: swift.Outcome) -> list[str]:
    return sorted(line for _, line in done.lines if "dry step [" in line)


def test_each_tower_is_reported_and_nothing_changes() -> None:
    flags = [*FULL, *VISION]
    plain = swift.run(["sft"], "qwen2_vl", "mixed", flags, guard=True)
    tried = swift.run(["sft"], "qwen2_vl", "mixed", [*flags, *ASKED], guard=True)
    assert (plain.returncode, tried.returncode) == (0, 0), tried.output[-3000:]
    assert not said(plain)
    towers = [line.split("dry step ")[1].split(": ")[:2] for line in said(tried)]
    assert towers == [[f"[rank {r}]", kind] for r in (0, 1) for kind in ("llm", "vision")]
    verdict = bitwise(tried.ranks, plain.ranks)
    assert verdict, verdict


def test_a_tower_without_gradients_stops_before_the_first_forward() -> None:
    tower = ["--external_plugins", str(swift.KIT / "external" / "no_grad_tower.py")]
    done = swift.run(["sft"], "qwen2_vl", "image", [*FULL, *VISION, *tower, *ASKED], guard=True)
    assert done.returncode != 0, done.output[-3000:]
    assert any("vision: 0 of 25" in line for line in said(done)), done.output[-3000:]
    assert {f["code"] for f in done.findings if f["outcome"] == "stopped"} == {"VG302"}
    assert "'loss'" not in done.output


@pytest.mark.parametrize(
    ("data", "more", "why"),
    [
        ("image", ["--deepspeed", "zero3"], "its weights are partitioned already"),
        ("text", ["--streaming", "true"], "a streamed data set has no batch beforehand"),
    ],
)
def test_what_cannot_be_tried_is_said_and_trains(data: str, more: list[str], why: str) -> None:
    done = swift.run(["sft"], "qwen2_vl", data, [*FULL, *more, *ASKED], guard=True)
    assert done.returncode == 0, done.output[-3000:]
    assert [line.split("not made: ")[1].startswith(why) for line in said(done)] == [True, True]
