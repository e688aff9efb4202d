"""Models that are not what they seem: mended inside their own forward where that is right, stopped
with the reason where nobody can, and left alone where they are healthy."""

from __future__ import annotations

import functools

import pytest

from tests.frameworks.colossalai import launch
from tests.frameworks.colossalai.cases import ASSERTS, MISMATCH, ONE_RANK, TEXT, WRONG, Case
from tests.frameworks.colossalai.halves import compare
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
OWN = {"processor": "own"}
LONG = ["image", "text", "text", "image"]

INSIDE = {
    case.name: case
    for case in (
        Case("paligemma", ASSERTS, {"model": "paligemma", "steps": TEXT, "guard": OWN}),
        Case("paligemma-silent", WRONG, {"model": "paligemma", "steps": LONG, "max_norm": 0}),
        Case("wrapped", ASSERTS, {"model": "wrapped", "steps": TEXT}),
    )
}
HEALTHY = [
    {"name": "own-dummy", "model": "own_dummy", "steps": TEXT},
    {"name": "own-dummy-known", "model": "own_dummy", "steps": TEXT, "guard": OWN},
    {"name": "one-backward", "model": "two_tower", "steps": ["image", "image&text"]},
    {"name": "whole-numbers", "model": "whole", "steps": ["image", "image"]},
]
STOPPED = {
    "mllama": {"model": "mllama", "steps": TEXT, "guard": OWN},
}
RANKS = (
    Case("paligemma-ranks", MISMATCH, {"model": "paligemma", "steps": ONE_RANK}, 2),
    Case("paligemma-zero", MISMATCH,
         {"model": "paligemma", "steps": ONE_RANK, "plugin": "low_level_zero"}, 2),
)  # fmt: skip


@functools.cache
def off():
    wishes = [each for case in INSIDE.values() for each in (case.off, case.reference)]
    stopped = [{"name": n, **wish, "guard": None} for n, wish in STOPPED.items()]
    return launch.run([*wishes, *stopped, *_off(HEALTHY)], guard=False)


def _off(cases):
    return [{**case, "guard": None} for case in cases]


@functools.cache
def on():
    stopped = [{"name": name, **wish} for name, wish in STOPPED.items()]
    return launch.run([*(case.on for case in INSIDE.values()), *stopped, *HEALTHY], guard=True)


@pytest.mark.parametrize("name", INSIDE)
def test_a_blank_inside_the_model_has_the_updates_of_plain_torch(name):
    case, reference = INSIDE[name], off().weights(f"{name}-reference")
    if case.broken == WRONG:
        assert not compare(off().weights(name), reference, world=1)
    else:
        assert case.broken in off().ranks(name)[0]["error"]
    ours = on().weights(name)
    verdict = compare(ours, reference, world=1)
    assert verdict, str(verdict)
    assert on().outcomes(name) == {("VG205", "fixed")}
    assert "inside the model" in on().records(name)[0]["change"]


@pytest.mark.parametrize("name", [case["name"] for case in HEALTHY])
def test_healthy_models_that_nothing_is_known_of_are_left_alone(name):
    verdict = bitwise(on().weights(name), off().weights(name), world=1)
    assert verdict, str(verdict)
    assert {record["level"] for record in on().records(name)} <= {"note"}


@pytest.mark.parametrize("name", STOPPED)
def test_where_nobody_can_run_the_tower_it_is_stopped_and_says_why(name):
    assert "AssertionError" in off().ranks(name)[0]["error"]
    (stopped,) = on().ranks(name)
    assert stopped["stage"] == "step 1 backward"
    assert "VG303" in stopped["error"]
    said = [r["why"] for r in on().records(name) if r["outcome"] == "unjudged"]
    assert len(said) == 1
    assert "text-only batches cannot be completed: tried on the plain model" in said[0]


@functools.cache
def ranks(guard):
    cases = [case.on if guard else case.reference for case in RANKS]
    return launch.run(cases, guard=guard, world=2)


@pytest.mark.parametrize("case", RANKS, ids=lambda case: case.name)
def test_ranks_that_differ(case):
    verdict = compare(
        ranks(True).weights(case.name), ranks(False).weights(f"{case.name}-reference"), world=2
    )
    assert verdict, str(verdict)
    assert ranks(True).outcomes(case.name) == {("VG205", "fixed")}
