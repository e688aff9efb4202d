"""Each condition by which findings become a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, Freeze, PadWithBlank, Variant
from vlmguard.core.plan import Plan, make, must_stop
from vlmguard.core.settings import Settings
from vlmguard.rules import RULES

RUN = Run("x")
FALSE = Variant(use_reentrant=False)
VARIANT = Finding("VG101", "error", "why", remedies=(Choose(),))


def plan(*findings, rules=None, chosen=(FALSE, None)):
    default = {rule.CODE: rule.DEFAULT for rule in RULES}.get
    return make(findings, Settings(rules or {}), lambda code: default(code, "warn"), RUN,
                lambda run: chosen)  # fmt: skip


@pytest.mark.parametrize(
    ("level", "policy", "asked", "stops"),
    [
        ("error", "fix", {}, True),
        ("error", "error", {}, True),
        ("error", "warn", {}, False),
        ("error", "off", {}, False),
        ("warning", "error", {}, False),
        ("warning", "error", {"VG401": "error"}, True),
        ("note", "error", {"VG": "error"}, True),
        ("note", "fix", {"VG401": "fix"}, False),
        ("warning", "warn", {"VG401": "warn"}, False),
    ],
)
def test_what_must_stop(level, policy, asked, stops):
    finding = Finding("VG401", level, "why")
    assert must_stop(finding, policy, Settings(asked)) is stops


def test_a_finding_that_is_off_is_left_out_and_others_stay():
    other = Finding("VG403", "warning", "clips")
    made = plan(VARIANT, other, rules={"VG101": "off"})
    assert (made.fixes, made.stops, made.warns, made.remedies) == ((), (), (other,), ())
    assert plan(other, VARIANT).fixes == (VARIANT,)


def test_a_remedy_that_is_no_question_asks_for_no_variant():
    finding = Finding("VG106", "error", "why", remedies=(PadWithBlank(),))
    assert plan(finding).remedies == (PadWithBlank(),)


def test_where_nothing_needs_to_change_a_note_is_only_said():
    note = replace(VARIANT, level="note")
    made = plan(note, chosen=(None, None))
    assert (made.warns, made.fixes, made.remedies) == ((note,), (), ())
    assert plan(VARIANT, chosen=(None, None)).stops == (VARIANT,), "it cannot be mended"


def test_nothing_works_is_said_once_and_not_for_a_note():
    nothing = Finding("VG405", "error", "nothing works")
    second = replace(VARIANT, code="VG102")
    assert plan(VARIANT, second, chosen=(None, nothing)).stops == (nothing,)
    note = replace(VARIANT, level="note")
    assert plan(note, chosen=(None, nothing)).stops == ()
    made = plan(VARIANT, chosen=(None, nothing), rules={"VG405": "off"})
    assert (made.stops, made.warns) == ((), ())
    made = plan(VARIANT, chosen=(None, nothing), rules={"VG405": "warn"})
    assert (made.stops, made.warns) == ((), (nothing,))


def test_remedies_of_each_kind_find_their_place():
    freeze = Finding("VG301", "error", "why", remedies=(Freeze(("vision", "*.norm")),))
    pad = Finding("VG108", "error", "why", remedies=(PadWithBlank(),))
    made = plan(freeze, pad, VARIANT)
    assert made.freeze == ("vision", "*.norm")
    assert made.pad
    assert not made.dummy_image
    assert made.variant == Variant(use_reentrant=False)
    assert made.fixes == (freeze, pad, VARIANT)
    assert Plan().variant is None
    assert (Plan().freeze, Plan().pad) == ((), False)


def test_two_that_contradict_over_a_note_only_warn():
    other = Finding("VG102", "note", "why", remedies=(Variant(use_reentrant=True),))
    made = plan(replace(VARIANT, level="note"), other)
    assert (made.remedies, made.stops, made.fixes) == ((), (), ())
    told = [f for f in made.warns if f.code == "VG901"]
    assert [f.level for f in told] == ["warning"]
    assert "use_reentrant (False and True)" in told[0].why
    assert "(VG101, VG102)" in told[0].why
    assert plan(VARIANT, replace(other, level="error"), rules={"VG901": "off"}).stops == ()
