"""Reentrant checkpointing of a module that runs more than once, under ZeRO-2, ZeRO-3 or FSDP2.

What it does
    Fires where a trainable vision tower runs under reentrant checkpointing with ZeRO-2,
    ZeRO-3 or FSDP2. An error where the model calls it more than once in a forward (once per
    image, or for an image and a video in one sample), a note where it might.

Why it is bad
    Each call of the tower gives a part of the gradient, and each part is reduced by itself.
    ZeRO-2 crashes: "has already been reduced". ZeRO-3 writes each part over the one before:
    exit 0, equal losses, one vision update 94 % off. FSDP2 loses parts, too.

When it is wrong
    A tower that runs once per forward is right either way; the change is then harmless
    (bitwise equal losses and weights).

Example
    swift rlhf --rlhf_type dpo --freeze_vit false --deepspeed zero2 on a tower called once
    per image

Use instead
    use_reentrant=False, or no checkpointing of the vision tower, or ZeRO-1.

Evidence
    ms-swift 4.6.0, deepspeed 0.14.5 - 0.19.8; OpenBMB/MiniCPM-V#423,
    deepspeedai/DeepSpeed#988. Own measurement: 2 gloo ranks on CPU, torch 2.13.0; FSDP2 on
    the lab's tiny models alone.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, NoCheckpointing, SetVariant
from vlmguard.core.hookspecs import hookimpl

CODE = "VG102"
NAME = "repeated-module-zero"
DEFAULT = "fix"


_HARM = {
    "zero1": "ZeRO-1 with overlap_comm would crash",
    "zero2": "ZeRO-2 would crash",
    "zero3": "ZeRO-3 would silently train vision wrongly",
    "fsdp2": "FSDP2 would silently train vision wrongly",
}
_MIGHT = {
    "zero1": "ZeRO-1 with overlap_comm crashes",
    "zero2": "ZeRO-2 crashes",
    "zero3": "ZeRO-3 silently trains it wrongly",
    "fsdp2": "FSDP2 silently trains it wrongly",
}


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    checkpointing = run.checkpointing
    if not run.reduces_early and run.strategy not in ("zero3", "fsdp2"):
        return None
    if run.repeats == "no":
        return None
    if not (checkpointing.on and checkpointing.use_reentrant):
        return None
    certain = run.repeats == "yes"
    return Finding(
        CODE,
        "error" if certain else "note",
        _sure(run) if certain else _unsure(run),
        remedies=(Choose(),),
        advice=(SetVariant(False), NoCheckpointing("vision")),
        evidence="own runs, deepspeed 0.14.5 - 0.19.8; deepspeedai/DeepSpeed#988",
    )


def _sure(run: Run) -> str:
    return f"{_HARM[run.strategy]}: reentrant checkpointing of a tower that runs more than once"


def _unsure(run: Run) -> str:
    """Nothing was seen to go wrong: a healthy run is told no more than that."""
    seen = "known" if run.known("repeats") else "observed"
    return (
        f"if vision runs twice in a forward (not {seen}), {_MIGHT[run.strategy]}: reentrant "
        "checkpointing"
    )
