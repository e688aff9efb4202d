"""Each rule: one run that it must speak about, with the level, and one about which it is silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vlmguard.core.facts import Batch, Checkpointing, Failure, Gradients, Run, Sample, Tower
from vlmguard.core.findings import Variant
from vlmguard.core.host import Host
from vlmguard.rules import GEMINI, RULES
from vlmguard.runtime.faults import fault

NEW = {"torch": "2.13.0+cpu", "deepspeed": "0.19.8"}
OLD = {"torch": "2.6.0", "deepspeed": "0.19.2"}
REENTRANT, OTHER = Checkpointing(True, True), Checkpointing(True, False)
VISION = Tower("vision", total=4, trainable=4, checkpointed=True)
FROZEN = replace(VISION, trainable=0)
LLM = Tower("llm", total=4, trainable=4, checkpointed=True)
DDP = Run("x", NEW, "ddp", 2, checkpointing=REENTRANT, find_unused=True, static_graph=False)
STATIC = replace(DDP, static_graph=True)
ZERO2 = Run("x", NEW, "zero2", 2, checkpointing=REENTRANT, towers=(LLM, VISION))
ZERO3 = replace(ZERO2, strategy="zero3")
UNUSED = replace(DDP, may_be_unused="yes", towers=(VISION,), find_unused=False)
IDLE = replace(ZERO3, may_be_unused="yes", can_pad=True, checkpointing=OTHER)

STRICT = {"torch": "2.10.0", "transformers": "4.57.6"}
SPEAKS = [
    ("VG101", DDP, "error"),
    ("VG101", replace(DDP, find_unused=False), "note"),
    ("VG101", replace(DDP, find_unused=False, repeats="yes"), "error"),
    ("VG102", replace(ZERO2, repeats="yes"), "error"),
    ("VG102", replace(ZERO3, repeats="possible"), "note"),
    ("VG102", replace(ZERO3, strategy="fsdp2", repeats="yes"), "error"),
    ("VG102", replace(ZERO2, strategy="zero1", overlap_comm=True, repeats="yes"), "error"),
    ("VG103", replace(ZERO3, forwards=2), "error"),
    ("VG103", replace(ZERO2, strategy="zero1", overlap_comm=True, forwards=2), "error"),
    ("VG103", replace(ZERO3, strategy="fsdp2", shared=True), "error"),
    ("VG104", replace(ZERO2, towers=(replace(VISION, adapters=2, input_grads=False),)), "error"),
    ("VG104", replace(ZERO2, dropped=("model.vision_tower.layers.0.weight",)), "error"),
    ("VG105", replace(ZERO3, releases=OLD, frozen=True, checkpointing=OTHER), "error"),
    ("VG106", UNUSED, "error"),
    ("VG106", replace(DDP, may_be_unused="possible", towers=(VISION,), find_unused=False), "note"),
    ("VG106", replace(STATIC, may_be_unused="yes", towers=(VISION,), find_unused=False), "error"),
    ("VG106", replace(UNUSED, world=1), "error"),
    ("VG106", replace(UNUSED, cut_off=("vision",)), "warning"),
    ("VG106", replace(IDLE, strategy="zero1"), "error"),
    ("VG106", replace(IDLE, towers=(LLM, FROZEN)), "error"),
    ("VG106", replace(IDLE, towers=(LLM, FROZEN), strategy="fsdp2"), "error"),
    ("VG106", replace(IDLE, phase="eval"), "error"),
    ("VG106", replace(IDLE, can_pad=False), "error"),
    (
        "VG106",
        replace(IDLE, may_be_unused="no", media_apart=True, provenance={"media_apart": "observed"}),
        "error",
    ),
    ("VG106", replace(IDLE, provenance={"may_be_unused": "assumed"}), "note"),
    ("VG106", replace(UNUSED, may_be_unused="no", never_used=("visual.last",)), "error"),
    ("VG106", replace(UNUSED, towers=(LLM, FROZEN), text_skips=("layers.3.q",)), "error"),
    ("VG107", replace(DDP, find_unused=False), "note"),
    ("VG107", replace(DDP, find_unused=False, forwards=2), "error"),
    ("VG107", replace(DDP, find_unused=False, forwards=2, world=1), "note"),
    ("VG108", IDLE, "error"),
    ("VG108", replace(IDLE, may_be_unused="possible"), "note"),
    ("VG109", replace(STATIC, accumulation=2), "error"),
    ("VG109", replace(STATIC, accumulation=2, checkpointing=Checkpointing()), "error"),
    ("VG113", replace(ZERO3, per_image=("model.merger",)), "note"),
    ("VG113", replace(ZERO3, strategy="fsdp2", per_image=("tower",), rows=("image",)), "note"),
    ("VG114", replace(ZERO3, experts="model.layers.0.mlp.experts"), "note"),
    ("VG115", replace(DDP, overscaled=4), "warning"),
    ("VG116", replace(DDP, router_loss=True, checkpointing=REENTRANT), "warning"),
    ("VG116", replace(ZERO2, router_loss=True, checkpointing=REENTRANT, world=1), "warning"),
    ("VG115", replace(ZERO2, overscaled=2, world=1), "warning"),
    ("VG111", replace(ZERO3, checkpointing=Checkpointing(True, True, False, "TRL")), "note"),
    ("VG111", replace(ZERO3, releases=OLD, checkpointing=Checkpointing(True, True, False)), "note"),
    ("VG112", replace(ZERO3, generates=True), "error"),
    ("VG301", replace(DDP, freeze=("vision",), unfrozen=3, unfrozen_example="visual.x"), "error"),
    ("VG401", replace(DDP, releases={"torch": "9.0"}), "warning"),
    ("VG402", replace(DDP, missing_seams=("train",)), "warning"),
    ("VG402", replace(DDP, lost_seams=("train",)), "warning"),
    ("VG403", replace(ZERO2, clipping="missing"), "warning"),
    ("VG403", replace(ZERO3, clipping="missing", releases={"deepspeed": "0.19.3"}), "warning"),
    ("VG405", replace(ZERO3, releases=OLD, frozen=True, forwards=2), "error"),
    ("VG408", replace(ZERO2, releases={"torch": "2.8.0", "deepspeed": "0.18.9"}), "warning"),
    ("VG409", replace(ZERO3, empty_group="yes", releases=STRICT), "warning"),
    ("VG409", replace(ZERO2, empty_group="possible", releases=STRICT), "warning"),
]
SILENT = [
    ("VG409", replace(ZERO3, releases=STRICT)),
    ("VG409", replace(DDP, empty_group="yes", releases=STRICT)),
    ("VG409", replace(ZERO3, empty_group="yes", releases={**STRICT, "torch": "2.9.1"})),
    ("VG409", replace(ZERO3, empty_group="yes", releases={**STRICT, "transformers": "5.1.0"})),
    ("VG409", replace(ZERO3, empty_group="yes", releases={"torch": "2.13.0"})),
    ("VG101", replace(DDP, checkpointing=OTHER)),
    ("VG101", replace(DDP, static_graph=True)),
    ("VG101", replace(DDP, checkpointing=Checkpointing(False, True))),
    ("VG102", replace(ZERO2, repeats="no")),
    ("VG102", replace(ZERO2, strategy="zero1", repeats="yes")),
    ("VG103", ZERO3),
    ("VG103", replace(ZERO3, forwards=2, checkpointing=OTHER)),
    ("VG104", replace(ZERO2, towers=(replace(VISION, adapters=2, input_grads=True),))),
    ("VG105", replace(ZERO3, releases=NEW, frozen=True, checkpointing=OTHER)),
    ("VG105", replace(ZERO3, releases=OLD, frozen=False, checkpointing=OTHER)),
    ("VG113", replace(ZERO3, per_image=("tower",), world=1)),
    ("VG113", replace(ZERO2, per_image=("tower",))),
    ("VG113", replace(ZERO3, per_image=("tower",), rows=("text",))),
    ("VG114", replace(ZERO3, strategy="fsdp", experts="mlp.experts")),
    ("VG115", replace(DDP, accumulation=4)),
    ("VG116", replace(DDP, checkpointing=REENTRANT)),
    ("VG116", replace(DDP, router_loss=True, checkpointing=OTHER)),
    ("VG116", replace(DDP, router_loss=True, checkpointing=Checkpointing())),
    ("VG116", replace(DDP, router_loss=True, checkpointing=REENTRANT, phase="eval")),
    ("VG115", replace(DDP, overscaled=4, phase="eval")),
    ("VG115", replace(DDP, overscaled=4, provenance={"overscaled": "assumed"})),
    ("VG111", replace(ZERO3, checkpointing=Checkpointing(True, True, None))),
    ("VG111", replace(ZERO3, checkpointing=Checkpointing(True, True, True))),
    ("VG111", replace(ZERO3, checkpointing=Checkpointing(False, True, False))),
    ("VG106", replace(DDP, may_be_unused="yes", towers=(VISION,), find_unused=True)),
    ("VG106", replace(UNUSED, towers=(replace(VISION, trainable=0),))),
    ("VG106", replace(IDLE, pads=True)),
    ("VG106", replace(IDLE, towers=(LLM, FROZEN), strategy="zero2")),
    ("VG106", replace(IDLE, strategy="zero2", phase="eval")),
    ("VG106", replace(UNUSED, phase="eval")),
    (
        "VG106",
        replace(
            UNUSED,
            may_be_unused="no",
            never_used=("visual.last",),
            provenance={"never_used": "assumed"},
        ),
    ),
    ("VG106", replace(IDLE, world=1)),
    ("VG107", replace(DDP, find_unused=False, checkpointing=OTHER)),
    ("VG108", replace(IDLE, pads=True)),
    ("VG108", replace(IDLE, unused_in_training="no")),
    ("VG109", STATIC),
    ("VG109", replace(DDP, accumulation=2)),
    ("VG108", replace(IDLE, strategy="zero2")),
    ("VG112", ZERO3),
    ("VG112", replace(ZERO2, generates=True)),
    ("VG112", replace(ZERO3, generates=True, checkpointing=OTHER)),
    ("VG112", replace(ZERO3, generates=True, towers=(LLM, FROZEN))),
    ("VG301", replace(DDP, freeze=("vision",), unfrozen=0)),
    ("VG401", DDP),
    ("VG402", DDP),
    ("VG403", replace(ZERO2, clipping="written")),
    ("VG403", replace(ZERO2, clipping="missing", releases=OLD)),
    ("VG403", replace(DDP, clipping="")),
    ("VG405", replace(ZERO3, releases=OLD, frozen=True)),
    ("VG405", replace(ZERO3, releases=NEW, frozen=True, forwards=2)),
]


@pytest.fixture(scope="module")
def host():
    made = Host(fault)
    for rule in RULES:
        made.add(rule)
    return made


def codes(findings):
    return {finding.code: finding.level for finding in findings}


@pytest.mark.parametrize(("code", "run", "level"), SPEAKS)
def test_speaks(host, code, run, level):
    assert codes(host.pre_wrap(run)).get(code) == level


@pytest.mark.parametrize(("code", "run"), SILENT)
def test_silent(host, code, run):
    assert code not in codes(host.pre_wrap(run))


IMAGE = Sample(placeholders=4, expected=4, images=1, keys=("pixel_values", "image_grid_thw"))
TEXT = Sample(placeholders=0, expected=0)
STEPS = [
    ("VG201", replace(IMAGE, keys=()), True),
    ("VG201", replace(IMAGE, missing=("image_grid_thw",)), True),
    ("VG201", IMAGE, False),
    ("VG201", TEXT, False),
    ("VG202", replace(IMAGE, placeholders=3), True),
    ("VG202", IMAGE, False),
    ("VG202", replace(IMAGE, expected=None), False),
    ("VG203", Sample(replaced="row 3"), True),
    ("VG203", TEXT, False),
]


@pytest.mark.parametrize(("code", "sample", "speaks"), STEPS)
def test_batches(host, code, sample, speaks):
    batch = Batch((TEXT, sample), ("image",))
    assert (code in codes(host.pre_step(DDP, batch=batch))) is speaks


@pytest.mark.parametrize(
    ("run", "stale", "speaks"),
    [
        (IDLE, ("vision",), True),
        (IDLE, (), False),
        (IDLE, ("llm",), False),
        (replace(IDLE, towers=(LLM, FROZEN)), ("vision",), False),
        (replace(IDLE, strategy="zero2"), ("vision",), False),
        (replace(IDLE, phase="eval"), ("vision",), False),
    ],
)
def test_text_only_step(host, run, stale, speaks):
    gradients = Gradients(stale=stale)
    assert ("VG204" in codes(host.pre_step(run, gradients=gradients))) is speaks


@pytest.mark.parametrize("phase", ["train", "eval", "generate"])
def test_completeness_is_judged_in_every_phase(host, phase):
    batch = Batch((replace(IMAGE, keys=()),), ("text",), phase=phase)
    assert "VG201" in codes(host.pre_step(DDP, batch=batch))


@pytest.mark.parametrize(
    ("unreached", "wiring", "level"),
    [
        ({"vision": ("a", "b")}, "cut", "error"),
        ({"vision": ("a", "b")}, "no_grad", "warning"),
        ({"vision": ("a", "b")}, "detached", "warning"),
        ({"vision": ("a", "b")}, "dropped", "warning"),
        ({"vision": ("a", "b")}, "idle", None),
        ({"vision": ("a", "b")}, "unknown", None),
        ({"vision": ("a",)}, None, "note"),
        ({"vision": ("design",)}, None, None),
        ({"vision": ("design", "b")}, "cut", "error"),
        ({"llm": ("a", "b")}, "cut", "warning"),
        ({}, None, None),
    ],
)
def test_no_gradient(host, unreached, wiring, level):
    told = dict.fromkeys(unreached, wiring) if wiring else {}
    numbers = {"vision": 2, "llm": 2}
    gradients = Gradients(unreached, numbers, told, steps=2, by_design=("design",))
    found = host.pre_step(DDP, gradients=gradients)
    assert codes(found).get("VG302") == level
    assert not [f for f in found if "freeze llm" in f.advise()], "the model that is trained"


@pytest.mark.parametrize(
    ("run", "level"),
    [
        (DDP, "warning"),
        (replace(DDP, towers=(Tower("vision", ("visual",), 10),)), "error"),
        (replace(DDP, find_unused=False), "error"),
    ],
    ids=["text", "a tower", "DDP ends it"],
)
def test_a_text_model_is_stopped_only_where_it_would_end_itself(host, run, level):
    steps = 2 if run.find_unused else 1
    cut = Gradients({"llm": ("a", "b")}, {"llm": 2}, {"llm": "cut"}, steps=steps)
    assert codes(host.pre_step(run, gradients=cut)).get("VG302") == level
    later = replace(cut, steps=8, wiring={"llm": "no_grad"})
    (found,) = host.pre_step(run, gradients=later)
    assert (found.level, "would fail" in found.why) == ("warning", False)


def test_who_asks_for_a_dry_step_is_stopped_by_what_it_finds(host):
    dark = Gradients({"vision": ("a",)}, {"vision": 1}, {"vision": "no_grad"}, tried=True)
    assert codes(host.pre_step(DDP, gradients=dark)).get("VG302") == "error"
    unused = replace(dark, wiring={"vision": "dropped"})
    assert not host.pre_step(DDP, gradients=unused)


@pytest.mark.parametrize(
    ("strategy", "trained", "said"),
    [
        ("zero3", True, ["give every row"]),
        ("zero3", False, ["give every row", "use zero2"]),
        ("zero2", True, ["give every row", "if they are not meant to train, f"]),
        ("fsdp2", True, ["give every row", "give media to all ranks"]),
    ],
)
def test_only_what_helps_is_advised_where_ranks_part(host, strategy, trained, said):
    towers = (VISION, replace(VISION, kind="aligner")) if trained else (FROZEN,)
    run = replace(ZERO3, strategy=strategy, towers=(LLM, *towers), may_be_unused="yes")
    found = next(f for f in host.pre_wrap(run) if f.code == "VG106")
    told = found.advise().split("; or ")
    assert all(one.startswith(other) for one, other in zip(told, said, strict=True)), told


FAILURES = {
    "VG501": "Expected to mark a variable ready only once. This error is",
    "VG502": "The parameter model.visual.x has already been reduced. Gradient computed twice",
    "VG503": "Expected to have finished reduction in the prior iteration before",
    "VG504": "Recomputed values for the following tensors have different metadata than during",
    "VG505": "Detected mismatch between collectives on ranks. Rank 1 is running",
    "VG506": "Image features and image tokens do not match, tokens: 3, features: 4",
    "VG507": "element 0 of tensors does not require grad and does not have a grad_fn",
}


@pytest.mark.parametrize("code", FAILURES)
def test_explains(host, code):
    found = host.on_error(None, None, Failure("RuntimeError", FAILURES[code]))
    assert "/path/to/vlmguard" not in found[0].advice, "it guards this run"
    assert codes(found) == {code: "error"}
    assert found[0].advise()


def test_the_release_that_mends_it_comes_from_the_table(host):
    frozen = replace(ZERO3, releases=OLD, frozen=True, checkpointing=OTHER)
    failure = Failure("CheckpointError", FAILURES["VG504"])
    assert "deepspeed>=0.19.3" in host.on_error(frozen, None, failure)[0].advice
    assert "DeepSpeed" not in host.on_error(DDP, None, failure)[0].advice


def test_explains_nothing_unknown(host):
    assert host.on_error(None, None, Failure("ValueError", "something else")) == []


SECTIONS = (
    "What it does",
    "Why it is bad",
    "When it is wrong",
    "Example",
    "Use instead",
    "Evidence",
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CODE)
def test_every_rule_has_its_page(rule):
    lines = rule.__doc__.splitlines()
    assert [line for line in lines if line in SECTIONS] == list(SECTIONS)
    assert rule.DEFAULT in ("fix", "error", "warn")


def test_every_rule_is_tried():
    """Explanations beyond these: tests/explain; the ledger's, VG610 to VG669: tests/ledger; those
    for ColossalAI alone: tests/plugins and tests/frameworks/colossalai."""
    tried = {case[0] for case in (*SPEAKS, *STEPS)} | {"VG204", "VG302", "VG406"}
    own = [rule for rule in RULES if not rule.NAME.startswith("explain-") and rule not in GEMINI]
    rules = {rule.CODE for rule in own if rule.CODE[:3] not in ("VG6", "VG9")}
    assert tried == rules, "a run about which the rule speaks belongs into SPEAKS, above"


def test_a_forced_variant_is_given_back_where_the_tables_say_that_it_works(host):
    forced = replace(ZERO3, tuning="lora", checkpointing=Checkpointing(True, True, False, "TRL"))
    new, old = (
        next(f for f in host.pre_wrap(replace(forced, releases=r)) if f.code == "VG111")
        for r in (NEW, {**OLD, "transformers": "4.57.6"})
    )
    assert new.remedies == (Variant(use_reentrant=False),)
    assert "works on these releases" in new.why
    assert not old.remedies, old


def test_advice_fits_the_run(host):
    """What the message alone cannot tell: what the run has already, what the batch held."""
    twice = Failure("RuntimeError", FAILURES["VG501"])
    has_it = host.on_error(replace(DDP, checkpointing=OTHER), None, twice)[0]
    assert "use_reentrant=False" not in has_it.advice
    assert "use_reentrant=False" in host.on_error(DDP, None, twice)[0].advice
    unfinished = Failure("RuntimeError", FAILURES["VG503"])
    seen = host.on_error(DDP, Batch((IMAGE,), ("image",)), unfinished)[0]
    assert "not a missing image" in seen.why
    assert "had no image" in host.on_error(DDP, Batch((TEXT,), ("text",)), unfinished)[0].why


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Timed out waiting for the lock /cache/model.lock", "VG567"),
        ("[pair.cc:534] Connection closed by peer [10.0.0.7]:4242", "VG563"),
        ("[pair.cc:534] Read error: Connection reset by peer", "VG563"),
        ("Timed out waiting 1800000ms for recv operation to complete", "VG505"),
    ],
)
def test_waits_are_told_apart(host, message, code):
    assert list(codes(host.on_error(DDP, None, Failure("RuntimeError", message)))) == [code]


def test_a_chinese_line(host, monkeypatch):
    monkeypatch.setenv("VLMGUARD_LANG", "zh")
    found = host.on_error(DDP, None, Failure("RuntimeError", FAILURES["VG505"]))[0]
    assert found.why.startswith("各 rank")
