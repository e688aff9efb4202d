"""Every stop, fix, set, warning and note fits into two lines of a terminal of 100 columns.

Real rules, over the runs of `test_rules`, with names as long as those of real models, in each
framework's own flags. What the ledger's stations say is measured in tests/ledger.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.rules.test_rules import (
    DDP,
    IDLE,
    IMAGE,
    LLM,
    SPEAKS,
    STATIC,
    STEPS,
    STRICT,
    TEXT,
    UNUSED,
    VISION,
    ZERO2,
    ZERO3,
)
from vlmguard import agree, guard, run_report
from vlmguard.compat import choice as compat
from vlmguard.core import plan
from vlmguard.core.facts import Batch, Checkpointing, Gradients
from vlmguard.core.findings import Finding, PadWithBlank, Variant, alternatives
from vlmguard.core.host import Host
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.rules import RULES, vg106_idle_tower, vg113_per_image_tower
from vlmguard.runtime import faults, report
from vlmguard_colossalai.gemini_facts import Forward, Step
from vlmguard_colossalai.rules import (
    vg205_text_only_gemini,
    vg303_untouched,
    vg304_never_used,
    vg305_second_backward,
)
from vlmguard_flagembedding.profile import PROFILE as FLAGEMBEDDING
from vlmguard_llamafactory.profile import PROFILE as LLAMAFACTORY
from vlmguard_swift.profile import PROFILE as SWIFT
from vlmguard_transformers.profile import Profile
from vlmguard_trl.profile import PROFILE as TRL

COLUMNS, LINES = 100, 2
TENSOR = "model.visual.blocks.0.attn.qkv.weight"
LONGEST = "base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.default.weight"
ALIGNER, AUDIO = replace(VISION, kind="aligner"), replace(VISION, kind="audio")
CANNOT = "Qwen2_5_VLForConditionalGeneration has no get_video_features"
SPELL = {
    "no framework": None,
    "transformers": Profile().spell,
    "ms-swift": SWIFT.spell,
    "LLaMA-Factory": LLAMAFACTORY.spell,
    "TRL": TRL.spell,
    "FlagEmbedding": FLAGEMBEDDING.spell,
}


def longer(run):
    """``run`` with names and numbers as real models have them."""
    told = {
        "dropped": (TENSOR,) * 37,
        "never_used": (TENSOR,) * 41,
        "text_skips": (LONGEST,) * 28,
        "per_image": ("model.vision_embed_tokens.img_processor",),
        "experts": "model.language_model.layers.0.mlp.experts",
        "cut_off": ("vision", "aligner"),
        "missing_seams": ("get_batch_samples", "training_step"),
        "lost_seams": ("get_batch_samples", "training_step"),
        "unfrozen_example": LONGEST,
        "freeze": ("vision", "aligner"),
        "unfrozen": 391,
        "conflicting_flags": ("--freeze_vit false", "--freeze_aligner false"),
    }
    made = {key: value for key, value in told.items() if getattr(run, key, None)}
    if run.unfrozen:
        made["conflicting_flags"] = told["conflicting_flags"]
    return replace(run, world=run.world if run.world < 2 else 64, **made)


BOTH = (LLM, VISION, ALIGNER)
FORCED = Checkpointing(True, True, False, "TRL")
MORE = [
    replace(IDLE, towers=BOTH),
    replace(IDLE, towers=(*BOTH, AUDIO)),
    replace(IDLE, towers=BOTH, strategy="fsdp2"),
    replace(IDLE, towers=BOTH, strategy="zero2"),
    replace(IDLE, towers=BOTH, can_pad=False, cannot_pad=CANNOT),
    replace(IDLE, towers=BOTH, may_be_unused="possible", can_pad=False, cannot_pad=CANNOT),
    replace(IDLE, towers=BOTH, can_pad=False, cannot_pad=CANNOT, media_apart=True,
            provenance={"media_apart": "observed"}),
    replace(IDLE, towers=(LLM, replace(VISION, trainable=0)), can_pad=False, cannot_pad=CANNOT),
    replace(UNUSED, towers=BOTH, text_skips=(LONGEST,)),
    replace(UNUSED, towers=BOTH, text_skips=(LONGEST,), may_be_unused="possible"),
    replace(UNUSED, towers=BOTH, world=1),
    replace(DDP, find_unused=False, repeats="yes", world=64),
    replace(DDP, find_unused=False, forwards=2),
    replace(DDP, find_unused=False, shared=True),
    replace(ZERO2, towers=(replace(VISION, adapters=2, input_grads=False),
                           replace(ALIGNER, adapters=2, input_grads=False))),
    replace(ZERO2, strategy="zero1", overlap_comm=True, repeats="possible"),
    replace(ZERO3, strategy="fsdp2", repeats="possible", provenance={"repeats": "assumed"}),
    replace(ZERO3, releases={"torch": "2.17", "deepspeed": "0.21.0", "transformers": "6.1.0"},
            checkpointing=Checkpointing(True, False), frozen=True),
    replace(DDP, releases={"torch": "2.17", "transformers": "6.1.0", "peft": "1.2.0"}),
    replace(ZERO3, tuning="lora", checkpointing=FORCED),
    replace(ZERO3, tuning="lora", checkpointing=FORCED, releases={"torch": "2.6.0"}),
    replace(DDP, missing_seams=("train",), lost_seams=("train",)),
    replace(ZERO3, empty_group="possible", releases=STRICT),
    replace(STATIC, accumulation=2),
]  # fmt: skip


def of_runs(host):
    for run in [case[1] for case in SPEAKS] + MORE:
        yield from host.pre_wrap(longer(run))


def of_batches(host):
    name = "row 123456 of /data/llava_instruct/train.jsonl"
    for _, sample, _ in STEPS:
        why = "row 123456; the first failures are logged above" if sample.replaced else ""
        batch = Batch((TEXT, replace(sample, name=name, replaced=why)), ("image",))
        yield from host.pre_step(DDP, batch=batch)
    many = replace(IMAGE, placeholders=16383, expected=16384, name=name)
    yield from host.pre_step(DDP, batch=Batch((many,), ("image",)))


def of_gradients(host):
    stale = replace(IDLE, towers=(*BOTH, AUDIO))
    yield from host.pre_step(stale, gradients=Gradients(stale=("vision", "aligner", "audio")))
    run = replace(DDP, towers=BOTH)
    for strategy, checkpointed in (("ddp", True), ("ddp", False), ("gemini", True)):
        wrapped = replace(run, strategy=strategy, find_unused=False,
                          checkpointing=Checkpointing(checkpointed, True))  # fmt: skip
        for kind in ("vision", "llm"):
            for wiring in ("cut", "detached", "no_grad", "dropped"):
                for steps in (1, 8):
                    seen = Gradients({kind: (TENSOR,) * 391}, {kind: 391}, {kind: wiring}, steps)
                    yield from host.pre_step(wrapped, gradients=seen)
                tried = replace(seen, tried=True)
                yield from host.pre_step(wrapped, gradients=tried)
    some = Gradients({"vision": (TENSOR,) * 14}, {"vision": 391}, steps=2)
    yield from host.pre_step(run, gradients=some)


def of_ranks():
    run = replace(ZERO3, towers=BOTH)
    fault = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total " * 3
    yield vg106_idle_tower.alone(run, fault, [1])
    yield vg106_idle_tower.alone(run, fault, [None, None, 3])
    for more in (True, False):
        yield vg113_per_image_tower.parted(run, "model.vision_embed_tokens", 12, more)
        yield vg205_text_only_gemini.ranks_differ(1, 0, reentrant=more)
    for settings in ({"VG101": "off"}, {"VG101": "off", "VG106": "warn", "VG2": "error"}):
        here = RunState(Settings(settings))
        one = agree._basis(here, {"torch": "2.13.0+cu128", "deepspeed": "0.19.8"})
        two = agree._basis(RunState(Settings()), {"torch": "2.13.0", "deepspeed": "0.19.2"})
        shown = agree._parted(one, two)
        yield agree._finding("have different settings or releases", 17, shown, agree._SAME)
    plans = ([{"kind": "Variant", "use_reentrant": False, "find_unused": True}], [])
    words = tuple(agree._words(one, two) for one, two in (plans, plans[::-1]))
    yield agree._finding("planned different changes", 17, words, agree._FAULT)


def of_gemini():
    gemini = replace(IDLE, strategy="gemini", towers=BOTH, releases={"colossalai": "0.5.0"})
    step = Step(kinds=("text",), lacks=("pixel_values", "image_grid_thw"))
    for told in (
        gemini,
        replace(gemini, may_be_unused="no"),
        replace(gemini, strategy="lowlevelzero"),
    ):
        for seen in (step, replace(step, why_not=CANNOT), replace(step, reorders=True),
                     replace(step, known=False, why_not=CANNOT)):  # fmt: skip
            found = vg205_text_only_gemini.pre_step(told, seen)
            yield from [found] if found else []
    names = {"vision": (TENSOR,) * 20, "aligner": (TENSOR,) * 2}
    yield vg303_untouched.pre_step(gemini, Forward(untouched=names))
    yield vg304_never_used.pre_wrap(replace(gemini, never_used=(TENSOR,) * 28))
    yield vg305_second_backward.pre_step(gemini, Forward(overwritten=True))
    for why in (
        "a batch of Tensor and Tensor is no mapping: its images cannot be checked",
        "a batch's tensors are on cpu and cuda:0: it cannot be checked",
    ):
        yield Finding("VG904", "note", why, scope="rank")


def of_the_guard(host, monkeypatch):
    clash = (Finding("VG101", "error", "a", remedies=(Variant(use_reentrant=False),)),
             Finding("VG102", "error", "b", remedies=(Variant(use_reentrant=True),)))  # fmt: skip
    made = plan.make(clash, Settings(), lambda code: "fix", ZERO3, lambda run: (None, None))
    yield from (found for found in (*made.stops, *made.warns) if found.code == "VG901")
    said = []
    monkeypatch.setattr(guard, "judge", lambda findings, state=None: said.extend(findings))
    for finding in host.pre_wrap(longer(replace(IDLE, towers=BOTH))):
        guard.verify(plan.Plan((), (finding,), (), ()), longer(replace(IDLE, towers=BOTH)))
    monkeypatch.setattr(report, "say", lambda finding, **more: said.append(finding))
    # The exception's own text is printed whole, however long: it is what has to be reported.
    faults.fault("reading the run's batches", RuntimeError("no module named vision_tower"))
    yield from said
    yield compat.nothing(compat.choose(replace(ZERO3, releases={"torch": "2.6.0",
                         "deepspeed": "0.19.2"}, frozen=True, forwards=2)))  # fmt: skip


@pytest.fixture
def findings(monkeypatch):
    monkeypatch.setenv("RANK", "12")
    host = Host(faults.fault)
    for rule in RULES:
        host.add(rule)
    found = [*of_runs(host), *of_batches(host), *of_gradients(host), *of_ranks(), *of_gemini()]
    return [*found, *of_the_guard(host, monkeypatch)]


CHANGE = {
    "Variant": "use_reentrant: True → False; ddp_find_unused_parameters: True → False",
    "Choose": "use_reentrant: True → False; ddp_find_unused_parameters: True → False",
    "PadWithBlank": "a forward without media gets a blank input; fused experts are leaf modules of "
    "ZeRO-3",
    "MeanLoss": "model_accepts_loss_kwargs: True → False",
    "Freeze": "vision: 391 parameter tensors trainable → frozen",
    "DummyImage": "a dummy image by the model's config is added (logits: +1234 tokens)",
}
HELD = "without media got a blank input, and it held"
FAILED = "forwards here, and then the ranks failed together"


def printed(finding, state):
    """As each outcome that the finding can have prints it."""
    yield report.text(finding, "warned" if finding.level == "warning" else "", state=state)
    yield report.text(finding, "stopped", state=state)
    for remedy in finding.remedies:
        change = CHANGE[type(remedy).__name__]
        yield report.text(finding, "set", change, state)
        yield report.text(finding, "fixed", change, state)
        if isinstance(remedy, PadWithBlank):
            here = replace(finding, scope="rank")
            yield report.text(here, "fixed", f"12 forwards {HELD}", state)
            yield report.text(here, "taken back", f"a blank input had run in 12 {FAILED}", state)


def lines(text):
    return sum(-(-len(line) // COLUMNS) for line in f"vlmguard: {text}".splitlines())


@pytest.mark.parametrize("framework", SPELL)
def test_every_message_fits_into_two_lines(findings, framework):
    state = RunState(Settings(), SPELL[framework])
    here = [f for f in findings if state.spell is None or "Gemini" not in f.why]
    told = {text: lines(text) for each in here for text in printed(each, state)}
    long = [f"{number} lines: {text}" for text, number in told.items() if number > LINES]
    assert not long, f"{len(long)} of {len(told)}\n" + "\n".join(sorted(long))


@pytest.mark.parametrize("framework", SPELL)
def test_what_a_stop_raises_takes_three_lines_and_has_the_whole_text_beside(findings, framework):
    spell, name = SPELL[framework], "vlmguard.core.errors.Stop: "
    here = [f for f in findings if spell is None or "Gemini" not in f.why]
    for each in [[found] for found in here] + [here[:2], here[-3:]]:
        short, whole = report.reasons(each, spell)
        assert -(-len(name + short) // COLUMNS) <= LINES + 1, short
        assert len(each) > 1 or each[0].why[:120] in short, "the reason comes first"
        assert short.startswith(f"vlmguard stopped this run (rank 12). {each[0].code}: ")
        assert all(f"{found.code}=warn" in short for found in each)
        assert all(found.why in whole and found.advise(spell) in whole for found in each)


def test_no_advice_freezes_what_is_meant_to_train(findings):
    every = {one for found in findings for one in alternatives(found.advice)}
    freezing = {one for one in every if "freeze" in one or "frozen" in one}
    assert freezing - {"set freeze = none to train them (--vlmguard-freeze none)"}
    assert all("not meant to train" in one or "freeze = none" in one for one in freezing)


def test_the_first_line_counts_the_rules_and_fits():
    state = RunState(Settings(sources=("/home/user/runs/vlmguard.toml", "VLMGUARD_RULES")))
    told = run_report.greeting(state, replace(ZERO3, framework="ms-swift", world=1024,
                                         releases={"ms-swift": "4.6.0"}))  # fmt: skip
    assert re.search(r"by \d\d+ rules", told)
    assert lines(told) <= LINES


def test_every_rule_has_a_sample(findings):
    """What explains an exception (VG5xx, VG7xx) stands under a traceback, and the ledger's rules
    (VG6xx) are measured in tests/ledger."""
    own = {rule.CODE for rule in RULES if rule.CODE[2] not in "567"}
    gemini = {"VG205", "VG303", "VG304", "VG305"}
    assert own | gemini <= {finding.code for finding in findings}
