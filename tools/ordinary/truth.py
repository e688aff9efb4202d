"""What is true to say of an ordinary run, and changes no value in it. All else is untrue until
somebody reasons otherwise, here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.ordinary.draws import LOOPS, Draw, varied


@dataclass(frozen=True)
class True_:
    """Attributes:
    code, outcome: of a finding; outcome is "set", "fixed", "warned", "" (a note), …
    when: for which draws it is true.
    why: the reason.
    """

    code: str
    outcome: str
    when: Callable[[Draw], bool]
    why: str


PARTITIONED = ("zero3", "fsdp2")
COUNTLESS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v", "gemma3", "paligemma")
"""Classes that say accepts_loss_kwargs = False: their loss is a mean over the micro-batch, and a
Trainer divides it by the number of micro-batches."""
PIXELS = ("image", "rare pairs", "dummy pixels")
"""Rows that all have pixels."""


def _has_text(draw: Draw) -> bool:
    """Whether a row without pixels is trained on, evaluated on (`fixture.held_out`) or asked to be
    gone on from."""
    evaluated = draw.strategy == "fsdp2" and draw.has(
        "evaluation", "early stop", "load best", "generation"
    )
    return draw.rows not in PIXELS or evaluated


def _of_means(draw: Draw) -> bool:
    """Whether micro-batches with different numbers of targets count the same."""
    counted = draw.model not in COUNTLESS and draw.program != "student"
    whole = draw.program == "own compute_loss" or (counted and "loop" not in draw.program)
    parts = draw.accumulation * draw.world > 1
    return draw.rows == "mixture" and draw.batch > 1 and parts and not whole


def _drifts(draw: Draw) -> bool:
    """Whether the micro-batch may be skipped in whose backward DDP averages the window."""
    return draw.strategy == "ddp" and draw.accumulation > 1 and draw.has("skipped batch")


def _trains_towers(draw: Draw) -> bool:
    """Whether a batch of text leaves something without a gradient: a tower, or Mllama's layers of
    cross-attention."""
    return draw.tuning not in ("frozen tower", "lora llm") or draw.model == "mllama"


def _looks_itself(draw: Draw) -> bool:
    """Whether the run has DDP look for unused parameters, as its own option."""
    return varied(draw) or draw.program in ("student", *LOOPS[1:])


def _conditional(draw: Draw) -> bool:
    """Whether a batch without images would end or hang a run that is wrapped as this one is."""
    if draw.strategy == "ddp":
        return _trains_towers(draw) and not _looks_itself(draw)
    return draw.strategy in PARTITIONED or (
        draw.strategy.startswith("zero") and _trains_towers(draw)
    )


def _looks(draw: Draw) -> bool:
    """Whether DDP may look for unused parameters because we have set it. Not from three ranks on,
    nor in a compiled model, nor where a step may have two forwards."""
    few = draw.world == 2 and not draw.has("compile", "text replay")
    return draw.strategy == "ddp" and few and _conditional(draw)


TRUE: tuple[True_, ...] = (
    True_("VG302", "", lambda draw: draw.model == "mllama" and draw.rows != "image",
          "true: text skips Mllama's cross-attention; said as a note, in the report alone"),
    True_("VG106", "set", lambda draw: _looks(draw) if draw.strategy == "ddp"
          else _conditional(draw),
          "said as a condition (should a batch have no image), before any row is known; what is "
          "set is a blank input times zero, or that DDP looks for unused parameters: no value "
          "changes"),
    True_("VG106", "", lambda draw: draw.strategy == "ddp" and _conditional(draw),
          "said as a condition (should a batch have no image), before any row is known; nothing is "
          "set from three ranks on, in a compiled model, nor where the user's own code calls it"),
    True_("VG106", "fixed", lambda draw: draw.strategy in PARTITIONED and _has_text(draw),
          "said as a condition (a step in which some ranks have images and others do not): a "
          "forward without images did run on the blank. Whether another rank had images in that "
          "step is not known to this one; in draws by phases and of text alone none has"),
    True_("VG111", "", lambda draw: draw.program == "trl sft" and draw.strategy == "zero3"
          and draw.tuning.startswith("lora") and draw.checkpointing,
          "true: TRL sets use_reentrant=True for PEFT under ZeRO-3, whatever the command asks for; "
          "said as a note, and nothing is changed"),
    True_("VG610", "", lambda draw: draw.program == "trl sft",
          "true: TRL's collator for images masks pads alone, so prompts and placeholders are "
          "targets; said as a note"),
    True_("VG621", "warned", lambda draw: _of_means(draw) and "loop" in draw.program,
          "true: of two rows one may have no target, so micro-batches have 8 and 16 targets, and "
          "the loop divides by the number of micro-batches"),
    True_("VG621", "", lambda draw: draw.has("text replay") or _of_means(draw),
          "true: two losses are added, each a mean, or the model's class has it so; said as a "
          "note"),
    True_("VG622", "", lambda draw: draw.has("text replay"),
          "true: the loss is the sum of two means; said as a note"),
    True_("VG640", "warned", lambda draw: _drifts(draw),
          "true: what is left out may be the batch whose backward averages: ranks drift apart"),
    True_("VG660", "warned", lambda draw: _drifts(draw),
          "true: as above; without the guard the same tensors differ at the end"),
    True_("VG640", "warned", lambda draw: draw.strategy == "fsdp2" and draw.accumulation > 1
          and draw.has("interrupted"),
          "true: the window that was broken off left gradients that are not reduced; zero_grad "
          "does not reach them, and the next training's first step adds them. After an "
          "interruption between two windows nothing is said"),
    True_("VG652", "warned", lambda draw: draw.strategy.startswith("zero")
          and draw.tuning in ("staged", "alternating"),
          "true: DeepSpeed steps flat groups whole: momentum moves what is frozen meanwhile"),
    True_("VG108", "set", lambda draw: draw.strategy == "zero3" and _trains_towers(draw),
          "said as a condition (should a step have no image), before any row is known; what is "
          "set is a blank input times zero: no value changes"),
    True_("VG622", "warned",
          lambda draw: draw.program == "own training_step" and draw.strategy.startswith("zero"),
          "true: under DeepSpeed accelerate's backward divides by the number of micro-batches too, "
          "unless it is given scale_wrt_gas=False as Trainer.training_step does"),
)  # fmt: skip
LINES = (
    r"vlmguard: \S+ guards ",
    r"vlmguard: \S+ \d+ rules watched, ",
    r"vlmguard: \S+ at the end \d+ fixed ",  # the number of findings
    r"vlmguard: VG\d+ ",  # a finding, judged elsewhere
    r"vlmguard: ledger: .*(balances?|cannot tell)",  # a healthy run prints it once
    r"    ",  # its second line
)
"""Lines that a guarded run prints beside its findings."""
UNUSED = r"\[rank\d\]:\[W.* Warning: find_unused_parameters=True was specified in DDP constructor"
"""torch's own, under DDP: true of the option that VG106 has set, where no batch needed it."""


def untrue(draw: Draw, said: Sequence[Mapping[str, Any]]) -> list[str]:
    """Findings that nothing here allows, as text, each once."""
    found = {
        f"{one['code']} {one['outcome'] or one['level']}: {one['why'][:200]}": None
        for one in said
        if not any(true.code == one["code"] and true.outcome == one["outcome"] and true.when(draw)
                   for true in TRUE)
    }  # fmt: skip
    return list(found)


def may_be_said(draw: Draw, line: str) -> bool:
    """Whether a line of a guarded run's output is one of ours that is true or judged elsewhere."""
    patterns = (*LINES, UNUSED) if _looks(draw) else LINES
    return any(re.match(pattern, line) for pattern in patterns)
