"""Models that are not what they seem: mended inside their own forward where that is right, stopped
with the reason where nobody can, and left alone where they are healthy."""

from __future__ import annotations

import functools

import pytest

from tests.frameworks.colossalai import launch
from tests.frameworks.colossalai.cases import TEXT, UNREDUCED, WRONG, Case
from tests.frameworks.colossalai.halves import compare
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
OWN = {"processor": "own"}
LONG = ["image", "text", "text", "image"]
INSIDE = "inside the model"

MENDED = {
    case.name: (case, how)
    for case, how in (
        (Case("mllama", UNREDUCED, {"model": "mllama", "steps": LONG, "max_norm": 0}), INSIDE),
        (Case("idefics3", WRONG, {"model": "idefics3", "steps": LONG, "max_norm": 0}), INSIDE),
        (Case("wrapped", WRONG, {"model": "wrapped", "steps": LONG, "max_norm": 0}), INSIDE),
    )
}  # fmt: skip
HEALTHY = [
    {"name": "own-dummy", "model": "own_dummy", "steps": TEXT},
    {"name": "own-dummy-known", "model": "own_dummy", "steps": TEXT, "guard": OWN},
    {"name": "one-backward", "model": "two_tower", "steps": ["image", "image&text"]},
    {"name": "whole-numbers", "model": "whole", "steps": ["image", "image"]},
]
UNKNOWN = {"name": "idefics2-unknown", "model": "idefics2", "steps": TEXT, "max_norm": 0}


@functools.cache
def off():
    wishes = [each for case, _ in MENDED.values() for each in (case.off, case.reference)]
    healthy = [{**case, "guard": None} for case in HEALTHY]
    return launch.run([*wishes, *healthy], guard=False)


@functools.cache
def on():
    mended = [case.on for case, _ in MENDED.values()]
    return launch.run([*mended, UNKNOWN, *HEALTHY], guard=True)


@pytest.mark.parametrize("name", MENDED)
def test_mended_runs_have_the_updates_of_plain_torch(name):
    (case, how), reference = MENDED[name], off().weights(f"{name}-reference")
    if case.broken == WRONG:
        assert not compare(off().weights(name), reference, world=1)
    else:
        assert case.broken in off().ranks(name)[0]["error"]
    ours = on().weights(name)
    verdict = compare(ours, reference, world=1)
    assert verdict, str(verdict)
    assert on().outcomes(name) == {("VG205", "fixed")}
    assert how in on().records(name)[0]["change"]


@pytest.mark.parametrize("name", [case["name"] for case in HEALTHY])
def test_healthy_models_that_nothing_is_known_of_are_left_alone(name):
    verdict = bitwise(on().weights(name), off().weights(name), world=1)
    assert verdict, str(verdict)
    assert {record["level"] for record in on().records(name)} <= {"note"}


def test_where_nobody_can_run_the_tower_it_is_stopped_and_says_why():
    (stopped,) = on().ranks("idefics2-unknown")
    assert stopped["stage"] == "step 1 backward"
    assert "VG303" in stopped["error"]
    said = [r["why"] for r in on().records("idefics2-unknown") if r["outcome"] == "unjudged"]
    assert len(said) == 1
    assert "text-only batches cannot be completed: no processor is known" in said[0]
