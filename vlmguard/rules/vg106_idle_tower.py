"""A tower, or a part of the language model, that a batch can leave unused.

What it does
    Fires if a batch without an image does not run a module that other ranks run. Under DDP and
    ZeRO-1/2 only modules that train count. Under ZeRO-3 and FSDP a frozen tower counts too, and
    evaluation as well. It is an error if the data hold both kinds of rows, or if something that
    trains is never used at all; else a note. Under ZeRO-3 and FSDP it also fires if a tower runs
    once for images and once for videos, and some batches hold both and others one. It stops a
    rank if its blank input fails and that of other ranks does not.

Why it is bad
    The ranks wait for each other's collective for ever, or crash in one that does not match.
    Under DDP also in one process, at the step after: `Expected to have finished reduction`.

When it is wrong
    If all batches have images, nothing breaks. Looking for unused parameters then costs a walk of
    the graph per step. It changes no bit in one or two ranks, but changes rounding in more ranks.
    There the setting is left alone until the rows are known. A blank input is run only in a
    forward that has no input of that kind.

Example
    Qwen3-VL, full, vision and aligner train, rows with and without images, plain DDP; LLaVA,
    LoRA on the language model, ZeRO-3, the same rows

Use instead
    DDP: find_unused_parameters. ZeRO and FSDP: a blank image in batches without one, or
    batches of one kind on all ranks; not where a tower trains under ZeRO-3, which applies its
    last gradient again in a step of text alone (VG108). Towers that are not meant to train
    can be frozen under ZeRO-1/2. Under ZeRO-3 and FSDP that does not help: they gather frozen
    weights as well.

Evidence
    deepspeedai/DeepSpeed#7170, huggingface/transformers#37186,
    2U1/Qwen-VL-Series-Finetune#57 (frozen, ZeRO-3), QwenLM/Qwen3-VL#126 (videos). Own
    measurement: 2 and 3 gloo ranks on CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.advice import (
    Advice,
    FindUnused,
    FreezeTower,
    PadWithBlank,
    SameKind,
    Strategy,
)
from vlmguard.core.facts import PARTITIONED, ZERO, Run
from vlmguard.core.findings import Choose, Finding, Level, Wish
from vlmguard.core.hookspecs import hookimpl

CODE = "VG106"
NAME = "idle-tower"
DEFAULT = "fix"
PHASES = ("train", "eval")
EVIDENCE = "own runs: DDP and FSDP2 hang; ZeRO-1/2/3: the collectives do not match"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if run.strategy == "ddp":
        return _ddp(run) if run.phase == "train" else None
    if run.world > 1 and not run.pads:
        return _collectives(run)
    return None


def _ddp(run: Run) -> Finding | None:
    """A static graph does not help: records of the lab."""
    if run.find_unused is not False:
        return None
    if run.cut_off:
        return _cut_off(run)
    if run.never_used and run.known("never_used"):
        many = len(run.never_used)
        tensors = f"{many} parameter tensors are" if many > 1 else "a parameter tensor is"
        why = (
            f"{tensors} trainable and used by no row, such as {run.never_used[0]}: DDP fails at "
            "step 2 (`Expected to have finished reduction`)"
        )
        return _finding("error", why, (Choose(),), (FindUnused(),))
    skipped = _skipped(run)
    if not skipped or run.pads or run.may_be_unused == "no":
        return None
    waits = (
        "the ranks will wait for each other for ever"
        if run.world > 1
        else "DDP fails at the step after one (`Expected to have finished reduction`)"
    )
    if run.may_be_unused == "yes" and run.known("may_be_unused"):
        return _finding(
            "error",
            f"Rows without an image skip {skipped}, and some "
            f"{'ranks' if run.world > 1 else 'steps'} will have them: {waits}",
            (Choose(),),
            (FindUnused(), PadWithBlank()),
        )
    return _finding(
        "note",
        f"A batch without an image will skip {skipped}: {waits}",
        (Choose(),) if run.world < 3 else (),
        (FindUnused(), PadWithBlank()),
    )


def _cut_off(run: Run) -> Finding:
    """DDP says it at step 2, in other words; the option that it then names would hide it."""
    kinds = " and ".join(run.cut_off)
    trains = "train and run" if len(run.cut_off) > 1 else "trains and runs"
    return Finding(
        CODE,
        "warning",
        f"{kinds} {trains}, and no gradient reaches any of the parameters, as a small copy of the "
        "model shows: DDP fails at step 2 (`Expected to have finished reduction`), and "
        "find_unused_parameters would only hide that they are not trained",
        advice=(
            "look in its forward for torch.no_grad, .detach() or .data",
            FreezeTower(",".join(run.cut_off), unmeant=True),
        ),
        evidence=EVIDENCE,
    )


def _skipped(run: Run) -> str:
    """What trains and has no gradient where a batch holds text alone; "" for nothing."""
    skipped = " and ".join(tower.kind for tower in run.trained_towers)
    if run.text_skips and run.known("text_skips"):
        skipped = f"{skipped} and " if skipped else ""
        skipped += f"{len(run.text_skips)} parameter tensors such as {run.text_skips[0]}"
    return skipped


def _collectives(run: Run) -> Finding | None:
    partitioned = run.strategy in PARTITIONED
    if not partitioned and (run.strategy not in ZERO or run.phase != "train"):
        return None
    gathered = " and ".join(tower.kind for tower in run.image_towers)
    names = gathered if partitioned else _skipped(run)
    if run.media_apart and run.known("media_apart"):
        return _media_apart(run, names)
    if not names or run.may_be_unused == "no":
        return None
    gathers = (
        ", which gathers frozen weights as well" if partitioned and not run.trained_towers else ""
    )
    certain = run.may_be_unused == "yes" and run.known("may_be_unused")
    cannot = (
        ""
        if run.can_pad
        else f"; no blank input can be made here ({run.cannot_pad or 'unknown model'})"
    )
    return _finding(
        "error" if certain else "note",
        (
            f"Text-only rows skip {names} under {run.strategy}{gathers}: in a step in which some "
            f"ranks have them and others do not, they wait for each other for ever{cannot}"
        )
        if certain
        else (
            f"If some ranks have only text and others have images, they will wait for each "
            f"other for ever under {run.strategy}{gathers}{cannot}"
        ),
        (PadWithBlank(),) if run.can_pad else (),
        (PadWithBlank(), *_other(run)),
    )


def _media_apart(run: Run, names: str) -> Finding:
    cannot = f"; no blank input can be made here ({run.cannot_pad})" if run.cannot_pad else ""
    return _finding(
        "error",
        f"Images and videos run {names} once each: in a step in which some ranks have both and "
        f"others one, they wait for each other for ever under {run.strategy}{cannot}",
        (PadWithBlank(),) if run.can_pad else (),
        (PadWithBlank(), *_other(run)),
    )


def alone(run: Run, fault: str, others: list[int | None]) -> Finding:
    """The blank input failed on this rank, and not on those ``others`` (None: which is unknown)."""
    what = "gather their weights" if run.strategy in PARTITIONED else "reduce their gradients"
    said = fault.partition("\n")[0][:160]
    these = f"rank {others[0]}" if len(others) == 1 else f"{len(others)} other ranks"
    return Finding(
        CODE,
        "error",
        f"the blank input failed on this rank ({said}) and not on {these}, where the towers "
        f"run: the ranks that {what} would wait for this one for ever",
        scope="rank",
        advice=(PadWithBlank(),),
        evidence="seen in this run",
    )


def _other(run: Run) -> tuple[SameKind | FreezeTower | Strategy, ...]:
    """What else was seen to go right. Not one kind for all ranks where a tower trains under ZeRO-3:
    a step of text alone would apply its last gradient again (VG108)."""
    kinds = ",".join(tower.kind for tower in run.trained_towers)
    if run.strategy in ("zero1", "zero2"):
        return (SameKind(), FreezeTower(kinds, unmeant=True))
    if run.strategy == "zero3":
        return () if kinds else (SameKind(), Strategy("zero2"))
    return (SameKind(),)


def _finding(
    level: Level, why: str, remedies: tuple[Wish, ...], advice: tuple[Advice, ...]
) -> Finding:
    return Finding(CODE, level, why, remedies=remedies, advice=advice, evidence=EVIDENCE)
