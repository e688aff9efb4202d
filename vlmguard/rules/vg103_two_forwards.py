"""Reentrant checkpointing with two forwards before one backward, or a shared weight.

What it does
    Fires where ZeRO-2, ZeRO-3 or FSDP2 runs reentrant checkpointing and one backward has
    two forward passes behind it, or one trainable weight sits in two checkpointed blocks.

Why it is bad
    Each reentrant block is a backward of its own. ZeRO-3 and FSDP2 keep one contribution to a
    gradient and lose the others, silently: update errors of 35 % (full) and 98 % (LoRA) with
    equal losses. ZeRO-2 crashes.

When it is wrong
    ms-swift's and TRL's DPO concatenate: that is one forward, and right.

Example
    swift rlhf --rlhf_type grpo --chord_sft_dataset … --deepspeed zero3

Use instead
    use_reentrant=False.

Evidence
    deepspeed stage3.py partition_grads, 0.14.5 - 0.19.8; torch FSDP2 2.13, 2.15. Own
    measurement: 2 gloo ranks on CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, SetVariant
from vlmguard.core.hookspecs import hookimpl

CODE = "VG103"
NAME = "two-forwards"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    checkpointing = run.checkpointing
    if not run.reduces_early and run.strategy not in ("zero3", "fsdp2"):
        return None
    if not (checkpointing.on and checkpointing.use_reentrant):
        return None
    if run.forwards < 2 and not run.shared:
        return None
    cause = "two forwards before one backward" if run.forwards > 1 else "a weight shared by blocks"
    harm = "crashes" if run.reduces_early else "drops gradients silently"
    return Finding(
        CODE,
        "error",
        f"reentrant checkpointing with {cause} {harm} under {run.strategy}",
        remedies=(Choose(),),
        advice=(SetVariant(False),),
        evidence="own runs, deepspeed 0.14.5 - 0.19.8: updates 35 % - 98 % off",
    )
