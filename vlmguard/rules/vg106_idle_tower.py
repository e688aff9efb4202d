"""A tower, or a part of the language model, that a batch can leave unused.

What it does
    Fires if a batch without an image does not run a module that other ranks run. Under DDP and
    ZeRO-1/2 only modules that train count. Under ZeRO-3 and FSDP a frozen tower counts too, and
    evaluation as well. It is an error if the data hold both kinds of rows, or if something that
    trains is never used at all; otherwise it is a note. It is a note, too, if the order of the rows
    gives all ranks the same kind at a time, or if a sampler of your own decides. Under ZeRO-3 and
    FSDP it also fires if a tower runs once for images and once for videos, and some batches hold
    both and others only one of them. If the blank input fails on one rank and not on the others,
    that rank is stopped.

Why it is bad
    The ranks start different collectives. They wait for each other for ever, or crash because the
    collectives do not match. Under DDP one process is enough: its next step fails with `Expected
    to have finished reduction`.

When it is wrong
    If all batches have images, nothing breaks. find_unused_parameters then only costs a walk of
    the graph in each step. With one or two ranks it changes no bit, with more it changes
    rounding. So with three or more ranks it is set only if the rows are known to need it. The
    same holds for a compiled model, and for a loss that may call the model twice before a
    backward. A blank input is run only in a forward that has no input of that kind.

Example
    Qwen3-VL, full, vision and aligner train, rows with and without images, plain DDP; LLaVA,
    LoRA on the language model, ZeRO-3, the same rows

Use instead
    DDP: find_unused_parameters. ZeRO and FSDP: a blank image in batches without one, or
    batches of one kind on all ranks. The second way is wrong if a tower trains under ZeRO-3: in
    a step of text, ZeRO-3 applies the tower's last gradient again (VG108). Towers that are not
    meant to train can be frozen under ZeRO-1/2. Under ZeRO-3 and FSDP freezing does not help:
    they gather frozen weights as well.

Evidence
    deepspeedai/DeepSpeed#7170, huggingface/transformers#37186,
    2U1/Qwen-VL-Series-Finetune#57 (frozen, ZeRO-3), QwenLM/Qwen3-VL#126 (videos). Own
    measurement: 2 and 3 gloo ranks on CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import PARTITIONED, ZERO, Run
from vlmguard.core.findings import (
    Advice,
    Choose,
    Finding,
    FindUnused,
    FreezeTower,
    Level,
    PadWithBlank,
    SameKind,
    Strategy,
    Wish,
    cut,
    listed,
    tail,
)
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
        why = (
            f"DDP would fail at step 2: no row uses {len(run.never_used)} trainable tensors, such "
            f"as {tail(run.never_used[0])}"
        )
        seen = f"never used: {run.never_used[0]}"
        return _finding("error", why, (Choose(),), (FindUnused(),), seen)
    skipped = _skipped(run)
    if not skipped or run.pads or run.may_be_unused == "no":
        return None
    waits = "the ranks would hang" if run.world > 1 else "DDP would fail at its next step"
    if run.may_be_unused == "yes" and run.known("may_be_unused"):
        return _finding(
            "error",
            f"{waits}: rows without {run.medium} do not use {skipped}",
            (Choose(),),
            (FindUnused(), PadWithBlank()),
        )
    return _finding(
        "note",
        f"if a batch is without {run.medium}, {waits}: it does not use {skipped}",
        (Choose(),) if _harmless(run) else (),
        (FindUnused(), PadWithBlank()),
    )


def _harmless(run: Run) -> bool:
    """Whether looking for unused parameters changes nothing where no batch needs it: no rounding,
    no compiled frame, and each backward has one forward for sure. In two forwards, of a text and of
    an image, DDP takes the tower's parameters for ready twice."""
    once = run.forwards == 1 and run.known("forwards")
    return run.world < 3 and once and not run.compiled


def _cut_off(run: Run) -> Finding:
    """DDP says it at step 2, in other words; the option that it then names would hide it."""
    return Finding(
        CODE,
        "warning",
        f"DDP will fail at step 2: no gradient reaches {' and '.join(run.cut_off)}",
        advice="look for no_grad, .detach() or .data in its forward; find_unused_parameters only "
        "hides this",
        evidence="tried on a copy of this model",
    )


def _skipped(run: Run) -> str:
    """What trains and has no gradient where a batch holds text alone; "" for nothing."""
    towers = [tower.kind for tower in run.trained_towers]
    if not (run.text_skips and run.known("text_skips")):
        return listed(towers, 3)
    many = len(run.text_skips)
    if towers:
        return listed([*towers, f"{many} other tensor{'s' if many > 1 else ''}"], 4)
    return f"{many} tensors such as {tail(run.text_skips[0])}" if many > 1 else run.text_skips[0]


def _collectives(run: Run) -> Finding | None:
    partitioned = run.strategy in PARTITIONED
    frozen = partitioned and not run.trained_towers
    if not partitioned and (run.strategy not in ZERO or run.phase != "train"):
        return None
    gathered = listed([tower.kind for tower in run.image_towers], 3)
    names = gathered if partitioned else _skipped(run)
    if run.media_apart and run.known("media_apart"):
        return _media_apart(run)
    if not names or run.may_be_unused == "no":
        return None
    hang = f"under {run.strategy} ranks would hang"
    certain = run.may_be_unused == "yes" and run.known("may_be_unused") and not run.may_be_alike
    skips = f"text gathers no frozen {names}" if frozen else f"text does not use {names}"
    some = f"{hang} where only some have {run.medium}"
    might = f"{hang} if only some of them have {run.medium}{' (frozen or not)' * frozen}"
    return _finding(
        "error" if certain else "note",
        (some if certain else might) + _no_blank(run)
        if not run.can_pad
        else f"{some}: {skips}"
        if certain
        else might,
        (PadWithBlank(),) if run.can_pad else (),
        (PadWithBlank(), *_other(run)),
        "" if run.can_pad else f"no blank input: {run.cannot_pad}",
    )


def _no_blank(run: Run, most: int = 28) -> str:
    return f"; no blank input: {cut(run.cannot_pad or 'unknown model', most)}"


def _media_apart(run: Run) -> Finding:
    cannot = _no_blank(run, 30) if run.cannot_pad else ": towers run once a kind"
    return _finding(
        "error",
        f"under {run.strategy} ranks would hang where some have image and video, others "
        f"one{cannot}",
        (PadWithBlank(),) if run.can_pad else (),
        ("give all batches the same kinds of media",),
        f"no blank input: {run.cannot_pad}" if run.cannot_pad else "",
    )


def alone(run: Run, fault: str, others: list[int | None]) -> Finding:
    """The blank input failed on this rank, and not on those ``others`` (None: which is unknown)."""
    said = fault.partition("\n")[0]
    these = f"rank {others[0]}" if len(others) == 1 else f"{len(others)} other ranks"
    return Finding(
        CODE,
        "error",
        f"{these} would hang: the blank input failed here and not there ({cut(said, 28)})",
        scope="rank",
        advice=(PadWithBlank(),),
        evidence=f"seen in this run: {said[:160]}",
    )


def _other(run: Run) -> tuple[SameKind | FreezeTower | Strategy, ...]:
    """What else was seen to go right. Not one kind for all ranks where a tower trains under ZeRO-3:
    a step of text alone would apply its last gradient again (VG108)."""
    kinds = ",".join(tower.kind for tower in run.trained_towers)
    if run.strategy in ("zero1", "zero2"):
        return (FreezeTower(kinds, unmeant=True),)
    if run.strategy == "zero3":
        return () if kinds else (Strategy("zero2"),)
    return (SameKind(),)


def _finding(
    level: Level,
    why: str,
    remedies: tuple[Wish, ...],
    advice: tuple[Advice | str, ...],
    seen: str = "",
) -> Finding:
    evidence = f"{EVIDENCE}; {seen}" if seen else EVIDENCE
    return Finding(CODE, level, why, remedies=remedies, advice=advice, evidence=evidence)
