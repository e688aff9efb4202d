"""An older Gemini: one parameter hook instead of a list of them, no look inside its policies."""

from __future__ import annotations

import functools

import pytest

from tests.frameworks.colossalai import launch
from tests.frameworks.colossalai.cases import ASSERTS, TEXT, UNREDUCED, WRONG, Case, two_tower
from tests.frameworks.colossalai.halves import compare
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
OLD = "colossalai-0.3.9"
CASES = {
    case.name: case
    for case in (
        Case("qwen", ASSERTS, {"steps": TEXT}),
        Case("qwen-mixed", UNREDUCED, {"steps": TEXT, "chunks": "mixed"}),
        Case("qwen-silent", WRONG, {"steps": TEXT, "max_norm": 0}),
        Case("tower", ASSERTS, two_tower(steps=TEXT, precision="fp16")),
    )
}
HEALTHY = {"name": "healthy", "steps": ["image", "mixed"]}
UNTOUCHED = {"name": "untouched", "steps": TEXT, "env": {"VLMGUARD_RULES": "VG205=off"}}


@functools.cache
def off():
    wishes = [each for case in CASES.values() for each in (case.off, case.reference)]
    return launch.run([*wishes, HEALTHY], guard=False, over=OLD)


@functools.cache
def on():
    cases = [*(case.on for case in CASES.values()), HEALTHY, UNTOUCHED]
    return launch.run(cases, guard=True, over=OLD)


@pytest.mark.parametrize("name", CASES)
def test_broken_without_and_right_with_the_guard(name):
    reference = off().weights(f"{name}-reference")
    if CASES[name].broken == WRONG:
        assert not compare(off().weights(name), reference, world=1)
    else:
        assert CASES[name].broken in off().ranks(name)[0]["error"]
    verdict = compare(on().weights(name), reference, world=1)
    assert verdict, str(verdict)
    assert on().outcomes(name) == {("VG205", "fixed")}


def test_healthy_and_watched():
    assert bitwise(on().weights("healthy"), off().weights("healthy"), world=1)
    assert not on().records("healthy")
    assert "guards colossalai 0.3.9" in on().output
    assert "forward did not use 31" in on().ranks("untouched")[0]["error"]
