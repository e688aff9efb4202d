"""Each condition of a rule by itself: what is left when one of them is taken away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.test_rules import DDP, IDLE, LLM, OTHER, SPEAKS, UNUSED, VISION, ZERO2
from vlmguard.compat.choice import Choice, Option
from vlmguard.compat.verdicts import Seen
from vlmguard.core.facts import Batch, Checkpointing, Gradients, Sample
from vlmguard.core.findings import (
    Choose,
    FreezeTower,
    MeanLoss,
    PadWithBlank,
    SetVariant,
    StaticGraph,
)
from vlmguard.rules import GEMINI, RULES

BY_CODE = {rule.CODE: rule for rule in RULES}
FIXED = replace(DDP, find_unused=False)
DEAD = replace(ZERO2, towers=(replace(VISION, adapters=2, input_grads=False),))


def level(code, run):
    finding = BY_CODE[code].pre_wrap(run)
    return finding and finding.level


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (FIXED, "note"),
        (replace(FIXED, forwards=2), "error"),
        (replace(FIXED, shared=True), "error"),
        (replace(FIXED, repeats="yes"), "error"),
        (replace(FIXED, repeats="possible"), "note"),
        (replace(DDP, find_unused=None), "error"),
    ],
)
def test_vg101_is_certain_where_a_module_runs_twice(run, expected):
    assert level("VG101", run) == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"towers": (replace(VISION, adapters=0, input_grads=False),)},
        {"towers": (replace(VISION, adapters=2, input_grads=None),)},
        {"towers": (replace(VISION, adapters=2, input_grads=False, checkpointed=False),)},
        {"checkpointing": OTHER},
        {"checkpointing": Checkpointing(False, True)},
    ],
)
def test_vg104_needs_adapters_reentrant_blocks_and_dead_inputs(changed):
    assert level("VG104", DEAD) == "error"
    assert level("VG104", replace(DEAD, **changed)) is None


def test_vg103_names_what_comes_twice():
    speaks = BY_CODE["VG103"].pre_wrap
    assert "two forwards before one backward" in speaks(replace(ZERO2, forwards=2)).why
    assert "a weight shared by blocks" in speaks(replace(ZERO2, shared=True)).why


def test_vg107_warns_of_drift_where_there_are_ranks():
    speaks = BY_CODE["VG107"].pre_wrap
    assert "drift apart" in speaks(FIXED).why
    assert "drift apart" not in speaks(replace(FIXED, world=1)).why


def test_vg107_is_silent_with_a_static_graph():
    drifts = replace(FIXED, forwards=2)
    assert level("VG107", drifts) == "error"
    assert level("VG107", replace(drifts, static_graph=True)) is None


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "error"),
        ({"pads": True}, None),
        ({"may_be_unused": "possible"}, "note"),
        ({"may_be_unused": "no"}, None),
        ({"provenance": {"may_be_unused": "assumed"}}, "note"),
        ({"towers": (replace(VISION, trainable=0),)}, None),
    ],
)
def test_vg108_is_certain_only_where_rows_without_images_are_known(changed, expected):
    assert level("VG108", replace(IDLE, **changed)) == expected


POLICIES = {
    "fix": "VG101 VG102 VG103 VG104 VG105 VG106 VG107 VG108 VG109 VG112 VG115 VG116 VG301",
    "error": "VG113 VG201 VG202 VG204 VG302 VG405 VG406 VG901 VG903",
    "warn": "VG111 VG114 VG203 VG401 VG402 VG403 VG408 VG409 VG902 VG904 VG610 VG611 VG612 VG620 "
    "VG621 VG622 VG630 VG640 VG641 VG642 VG650 VG651 VG652 VG660",
}


def explains(rule):
    return rule.NAME.startswith("explain-")


@pytest.mark.parametrize("policy", POLICIES)
def test_default_policies(policy):
    ours = (rule for rule in RULES if rule not in GEMINI and not explains(rule))
    told = {rule.CODE for rule in ours if policy == rule.DEFAULT}
    assert told == set(POLICIES[policy].split()), "a new rule's code belongs into POLICIES, above"


def test_explanations_only_ever_warn():
    assert {rule.DEFAULT for rule in RULES if explains(rule)} == {"warn"}


LOCAL = {"VG201", "VG202", "VG203", "VG204", "VG302"}
"""Said of one rank alone: the others have other rows."""
REMEDIES = {
    "VG101": Choose(), "VG102": Choose(), "VG103": Choose(), "VG104": Choose(), "VG105": Choose(),
    "VG107": Choose(), "VG108": PadWithBlank(), "VG109": Choose(), "VG112": Choose(),
    "VG115": MeanLoss(), "VG116": Choose(),
}  # fmt: skip


@pytest.mark.parametrize(("code", "run", "expected"), SPEAKS)
def test_what_a_rule_asks_for(code, run, expected):
    finding = BY_CODE[code].pre_wrap(run)
    assert finding.code == code
    assert finding.scope == "run"
    if code in REMEDIES and (code != "VG108" or run.can_pad):
        assert finding.remedies == (REMEDIES[code],)
    for advice in finding.advice if isinstance(finding.advice, tuple) else ():
        if isinstance(advice, SetVariant):
            assert advice.use_reentrant is (code == "VG105"), "the one that works"
        if isinstance(advice, StaticGraph):
            assert advice.value is False


PADS = replace(IDLE, strategy="zero2")
MAY = {"may_be_unused": "possible", "find_unused": False, "towers": (VISION,)}


@pytest.mark.parametrize(
    ("run", "remedies"),
    [
        (PADS, (PadWithBlank(),)),
        (replace(PADS, can_pad=False), ()),
        (replace(PADS, may_be_unused="possible"), (PadWithBlank(),)),
        (UNUSED, (Choose(),)),
        (replace(DDP, **MAY), (Choose(),)),
        (replace(DDP, **MAY, world=3), ()),  # rounds otherwise there: left alone
        (replace(DDP, **MAY, forwards=2), ()),
        (replace(DDP, **MAY, compiled=True), ()),  # other frames
        (replace(UNUSED, compiled=True), (Choose(),)),
        (replace(DDP, **MAY, provenance={"forwards": "assumed"}), ()),
        (replace(UNUSED, provenance={"forwards": "assumed"}), (Choose(),)),
        (replace(UNUSED, world=3), (Choose(),)),
    ],
)
def test_vg106_remedies(run, remedies):
    assert BY_CODE["VG106"].pre_wrap(run).remedies == remedies


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (replace(UNUSED, pads=True), None),
        (replace(UNUSED, may_be_unused="no"), None),
        (replace(UNUSED, find_unused=None), None),
        (replace(UNUSED, towers=()), None),
        (replace(UNUSED, may_be_unused="yes", provenance={"may_be_unused": "assumed"}), "note"),
        (replace(UNUSED, towers=(LLM,), text_skips=("q",)), "error"),
        (
            replace(UNUSED, towers=(LLM,), text_skips=("q",), provenance={"text_skips": "assumed"}),
            None,
        ),
        (replace(UNUSED, may_be_unused="no", never_used=("a", "b")), "error"),
        (replace(PADS, world=1), None),
        (replace(PADS, pads=True), None),
        (replace(PADS, may_be_unused="no"), None),
        (replace(PADS, strategy="single"), None),
        (replace(PADS, strategy="gemini"), None),
        (replace(PADS, strategy="fsdp"), "error"),
        (replace(PADS, strategy="zero3", phase="eval"), "error"),
        (replace(PADS, strategy="fsdp2", phase="eval"), "error"),
        (replace(PADS, phase="eval"), None),
        (replace(PADS, towers=(LLM,)), None),
        (replace(PADS, towers=(LLM, replace(VISION, trainable=0))), None),
        (replace(PADS, provenance={"may_be_unused": "assumed"}), "note"),
        (replace(PADS, towers=(LLM, replace(VISION, trainable=0)), text_skips=("q",)), "error"),
    ],
)
def test_vg106_narrowly(run, expected):
    assert level("VG106", run) == expected


OFF = {"checkpointing": Checkpointing(False, True)}


@pytest.mark.parametrize(
    ("code", "run", "expected"),
    [
        ("VG102", replace(ZERO2, repeats="yes", **OFF), None),
        ("VG102", replace(ZERO2, repeats="yes", checkpointing=OTHER), None),
        ("VG102", replace(ZERO2, strategy="zero1", repeats="yes"), None),
        ("VG102", replace(ZERO2, strategy="ddp", repeats="yes"), None),
        ("VG103", replace(ZERO2, forwards=2), "error"),
        ("VG103", replace(ZERO2, shared=True), "error"),
        ("VG103", replace(ZERO2, forwards=2, **OFF), None),
        ("VG103", replace(ZERO2, forwards=2, checkpointing=OTHER), None),
        ("VG103", replace(ZERO2, strategy="zero1", forwards=2), None),
        ("VG103", replace(ZERO2, strategy="ddp", forwards=2), None),
        ("VG105", replace(ZERO2, checkpointing=Checkpointing(False, False)), None),
        ("VG107", replace(FIXED, **OFF), None),
        ("VG107", replace(FIXED, strategy="zero2"), None),
        ("VG107", replace(FIXED, repeats="yes"), "error"),
        ("VG107", replace(FIXED, repeats="possible"), "note"),
        ("VG107", DDP, None),
        ("VG107", replace(FIXED, find_unused=None), None),
        ("VG108", replace(IDLE, strategy="fsdp2"), None),
        ("VG109", replace(DDP, strategy="zero2", static_graph=True, accumulation=2), None),
        ("VG109", replace(DDP, static_graph=True, accumulation=1), None),
        ("VG112", replace(ZERO2, strategy="zero3", generates=True, **OFF), None),
        (
            "VG112",
            replace(
                ZERO2,
                strategy="zero3",
                generates=True,
                towers=(LLM, replace(VISION, checkpointed=False)),
            ),
            None,
        ),
        ("VG112", replace(ZERO2, strategy="zero3", generates=True, towers=(LLM,)), None),
        ("VG301", replace(DDP, freeze=(), unfrozen=2), None),
        ("VG301", replace(DDP, freeze=("vision",), unfrozen=1), "error"),
        ("VG403", replace(DDP, clipping="missing"), None),
        ("VG403", replace(ZERO2, clipping="missing", releases={}), None),
        ("VG403", replace(ZERO2, clipping=""), None),
        ("VG401", replace(DDP, releases={"torch": "9.0", "deepspeed": "9.9"}), "warning"),
    ],
)
def test_each_condition_counts(code, run, expected):
    assert level(code, run) == expected


def test_vg402_says_what_is_there_and_what_is_not():
    both = replace(DDP, missing_seams=("train",), lost_seams=("step",))
    assert "cannot wrap train; something" in BY_CODE["VG402"].pre_wrap(both).why
    assert "replaced step" in BY_CODE["VG402"].pre_wrap(both).why
    assert "replaced" not in BY_CODE["VG402"].pre_wrap(replace(both, lost_seams=())).why
    assert "cannot wrap" not in BY_CODE["VG402"].pre_wrap(replace(both, missing_seams=())).why


IMAGE = Sample(placeholders=4, expected=4, images=1, keys=("pixel_values", "image_grid_thw"))


@pytest.mark.parametrize(
    ("code", "sample", "expected"),
    [
        ("VG201", replace(IMAGE, keys=()), "error"),
        ("VG201", replace(IMAGE, keys=(), images=0), None),
        ("VG201", replace(IMAGE, keys=(), images=None), "error"),
        ("VG201", replace(IMAGE, keys=(), placeholders=0), None),
        ("VG201", replace(IMAGE, keys=(), placeholders=None), None),
        ("VG201", replace(IMAGE, missing=("image_grid_thw",)), "error"),
        ("VG202", replace(IMAGE, placeholders=3), "error"),
        ("VG202", replace(IMAGE, placeholders=5), "error"),
        ("VG202", replace(IMAGE, placeholders=None), None),
        ("VG202", replace(IMAGE, placeholders=3, keys=()), None),
        ("VG202", replace(IMAGE, placeholders=0), "error"),
        ("VG203", replace(IMAGE, replaced="row 3"), "warning"),
    ],
)
def test_each_condition_of_a_batch_counts(code, sample, expected):
    ask = BY_CODE[code].pre_step
    finding = ask(DDP, Batch((IMAGE, sample), ("image",)))
    assert (finding and finding.level) == expected
    assert finding is None or finding.scope == "rank"
    if finding is not None and code != "VG203":
        assert "sample 1 of this batch" in finding.why, "the row, by its place"
    assert ask(DDP, None) is None
    assert ask(DDP, Batch((IMAGE,), ("image",))) is None


def test_vg302_names_each_tower_and_counts():
    ask = BY_CODE["VG302"].pre_step
    gradients = Gradients(
        {"vision": ("a", "b"), "llm": ("c",)}, {"vision": 2, "llm": 3}, {"vision": "cut"},
        steps=2, by_design=("c",),
    )  # fmt: skip
    (found,) = ask(DDP, gradients)
    assert (found.level, found.scope) == ("error", "rank")
    assert found.why == "vision does not train: it ran and got no gradient in 2 steps (2 tensors)"
    assert found.evidence.endswith("no gradient of a")
    assert found.advice[0] == SetVariant(False)
    assert found.advice[-1] == FreezeTower("vision", unmeant=True), "the wiring goes first"
    assert ask(DDP, None) == []
    pooler = replace(gradients, unreached={"pooler": ("p",)}, trainable={"pooler": 1},
                     wiring={"pooler": "dropped"})  # fmt: skip
    assert [found.level for found in ask(DDP, pooler)] == ["warning"]
    assert ask(DDP, replace(pooler, by_design=("p",))) == [], "an embedder never uses it"
    some = replace(gradients, unreached={"vision": ("a",)}, wiring={})
    (note,) = ask(DDP, some)
    assert (note.level, note.advice) == ("note", "")
    assert "1 of the 2" in note.why


def test_vg204_speaks_of_one_rank_and_names_what_trained():
    found = BY_CODE["VG204"].pre_step(IDLE, Gradients(stale=("llm", "vision", "aligner")))
    assert (found.level, found.scope) == ("error", "rank")
    assert found.why.endswith("this step did not use vision")
    assert FreezeTower("vision", unmeant=True) in found.advice


FORCED = replace(ZERO2, strategy="zero3", tuning="lora",
                 checkpointing=Checkpointing(True, True, False, "TRL"))  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "works on"),
        ({"releases": {"torch": "2.6.0", "deepspeed": "0.19.2"}, "frozen": True}, "fails on"),
        ({"releases": {"torch": "9.0", "deepspeed": "9.9"}}, "was not measured"),
    ],
)
def test_vg111_says_what_is_known_of_the_users_variant(changed, said):
    found = BY_CODE["VG111"].pre_wrap(replace(FORCED, **changed))
    assert said in found.why
    assert bool(found.remedies) is ("works" in said)
    assert bool(found.advice) is bool(found.remedies)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (Seen("ok", "measured", ""), "works on"),
        (Seen("ok", "nearest", ""), "was not measured"),
        (Seen("crash other", "measured", ""), "was not measured"),
    ],
)
def test_vg111_gives_back_only_what_was_measured_to_work(monkeypatch, known, said):
    """Under one wrap it may fail, under the other nobody knows."""
    options = (Option("zero3", "non_reentrant", None), Option("zero3", "non_reentrant", known),
               Option("zero3", "reentrant", Seen("ok", "measured", "")))  # fmt: skip
    monkeypatch.setattr("vlmguard.compat.choice.choose", lambda run: Choice(options=options))
    assert said in BY_CODE["VG111"].pre_wrap(FORCED).why


@pytest.mark.parametrize(
    "checkpointing",
    [Checkpointing(True, True, True), Checkpointing(True, None, False), Checkpointing(True, True),
     Checkpointing(False, True, False)],
)  # fmt: skip
def test_vg111_is_silent_where_the_user_has_his_way(checkpointing):
    assert level("VG111", replace(FORCED, checkpointing=checkpointing)) is None


@pytest.mark.parametrize(("kinds", "medium"), [
    ("vision", "an image"), ("vision aligner", "an image"), ("aligner", "an image"),
    ("audio", "a sound"), ("audio aligner", "a sound"), ("vision audio", "an image or sound"),
])  # fmt: skip
def test_a_model_that_hears_is_told_of_sounds(kinds, medium):
    run = replace(IDLE, towers=(LLM, *(replace(VISION, kind=kind) for kind in kinds.split())))
    hangs = BY_CODE["VG106"].pre_wrap(replace(run, strategy="zero1"))
    assert f" only some have {medium}:" in hangs.why
    for certainty, told in (("yes", "in a step without"), ("possible", "if a step is without")):
        stale = BY_CODE["VG108"].pre_wrap(replace(run, may_be_unused=certainty))
        assert stale.why.startswith(f"{told} {medium}")
