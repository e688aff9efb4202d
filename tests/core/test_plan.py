from __future__ import annotations

import pytest

from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, DummyImage, Finding, Freeze, Variant
from vlmguard.core.plan import make
from vlmguard.core.settings import Settings

RUN = Run("x")
FALSE = Variant(use_reentrant=False)
BAD = Finding("VG101", "error", "why", remedies=(Choose(),))


def plan(*findings, rules=None, chosen=(FALSE, None), default="fix"):
    return make(findings, Settings(rules or {}), lambda code: default, RUN, lambda run: chosen)


def test_fix_resolves_the_choice():
    made = plan(BAD)
    assert made.variant == Variant(use_reentrant=False)
    assert made.fixes == (BAD,)


@pytest.mark.parametrize(
    ("policy", "fixes", "warns", "stops"),
    [("off", 0, 0, 0), ("warn", 0, 1, 0), ("fix", 1, 0, 0), ("error", 0, 0, 1)],
)
def test_policies(policy, fixes, warns, stops):
    made = plan(BAD, rules={"VG1": policy})
    assert (len(made.fixes), len(made.warns), len(made.stops)) == (fixes, warns, stops)
    assert bool(made.remedies) is bool(fixes)


def test_an_error_without_remedy_stops_and_a_note_does_not():
    assert plan(Finding("VG1", "error", "why")).stops
    assert plan(Finding("VG1", "note", "why")).warns


def test_nothing_works():
    nothing = Finding("VG405", "error", "nothing works")
    assert plan(BAD, chosen=(None, nothing)).stops == (nothing,)


def test_contradiction_applies_nothing():
    other = Finding("VG102", "error", "why", remedies=(Variant(use_reentrant=True),))
    made = plan(BAD, other, Finding("VG301", "error", "x", remedies=(Freeze(("a",)),)))
    assert made.remedies == ()
    assert [finding.code for finding in made.stops] == ["VG901"]


def test_a_contradiction_may_be_passed():
    other = Finding("VG102", "error", "why", remedies=(Variant(use_reentrant=True),))
    made = plan(BAD, other, rules={"VG901": "warn"})
    assert (made.remedies, made.stops) == ((), ())
    assert "VG901" in {finding.code for finding in made.warns}


def test_agreeing_remedies_are_merged():
    other = Finding("VG106", "note", "why", remedies=(Variant(find_unused=True), DummyImage()))
    made = plan(BAD, other, BAD)
    assert made.variant == Variant(use_reentrant=False, find_unused=True)
    assert made.dummy_image
