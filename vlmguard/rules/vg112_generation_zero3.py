"""Reentrant checkpointing of a vision tower under ZeRO-3 in a trainer that generates.

What it does
    Fires where a trainer generates between its training steps (GRPO and kin; an evaluation with
    `predict_with_generate`), ZeRO-3 partitions the model, and a vision tower that trains runs under
    reentrant checkpointing.

Why it is bad
    The tower's weights do not move at all, while aligner and language model train rightly: exit 0,
    and every tower parameter has a gradient, of zero.

When it is wrong
    TRL 1.16's own GRPO is right (1.6e-5 of the reference), and so is transformers' Trainer with an
    evaluation that generates (1e-5), with TRL's unwrapping too: there the rule is silent.
    LLaMA-Factory 0.9.5 itself refuses `predict_with_generate` under ZeRO-3. Under ZeRO-2
    the same run is right, and so it is without checkpointing. Non-reentrant checkpointing is right
    under ZeRO-2 and ZeRO-3, and bitwise neutral where nothing was wrong.

Example
    ms-swift, GRPO, LLaVA-1.5, full, vision trains, ZeRO-3, default flags; SFT of the same with
    --predict_with_generate true: after the first evaluation all updates are wrong (60 of 60)

Use instead
    use_reentrant=False, or ZeRO-2.

Evidence
    Own measurement: ms-swift 4.6.0, deepspeed 0.19.8, 2 gloo ranks on CPU, torch 2.13.0; images
    in every row.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, SetVariant, Strategy
from vlmguard.core.hookspecs import hookimpl

CODE = "VG112"
NAME = "generation-zero3"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if run.strategy != "zero3" or not run.generates:
        return None
    if not (run.checkpointing.on and run.checkpointing.use_reentrant):
        return None
    vision = run.tower("vision")
    if vision is None or not (vision.trainable and vision.checkpointed):
        return None
    return Finding(
        CODE,
        "error",
        "vision would silently not train: reentrant checkpointing under ZeRO-3 in a trainer that "
        "generates",
        remedies=(Choose(),),
        advice=(SetVariant(False), Strategy("zero2")),
        evidence="own runs, ms-swift 4.6.0, GRPO: the tower's update is exactly 0",
    )
