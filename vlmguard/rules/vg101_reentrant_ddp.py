"""Reentrant gradient checkpointing under DDP.

What it does
    Fires where blocks with trainable parameters run under reentrant checkpointing in DDP.
    It is an error if DDP looks for unused parameters or a module runs twice.
    Otherwise it is a note.

Why it is bad
    Each reentrant block is a backward of its own, so DDP's hook for a parameter fires
    twice: "Expected to mark a variable ready only once", at step 1.

When it is wrong
    With find_unused_parameters=False and every module used once, reentrant checkpointing is
    right; the change to non-reentrant is then harmless (bitwise equal losses and weights).

Example
    swift sft --tuner_type lora --gradient_checkpointing_kwargs '{"use_reentrant": true}'

Use instead
    use_reentrant=False. Other ways out: DDP's static graph (not with accumulation); no
    checkpointing with a smaller micro-batch and more accumulation; DeepSpeed ZeRO, if no module
    runs twice (VG102).

Evidence
    ms-swift 4.6.0 and 3.2.0, FlagEmbedding 1.4.2. Own measurement: 2 gloo ranks on CPU,
    torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, SetVariant
from vlmguard.core.hookspecs import hookimpl

CODE = "VG101"
NAME = "reentrant-ddp"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    checkpointing = run.checkpointing
    if run.strategy != "ddp" or not (checkpointing.on and checkpointing.use_reentrant):
        return None
    if run.static_graph:
        return None
    cause = _cause(run)
    apart = " or let weights differ" if run.find_unused is False and run.world > 1 else ""
    return Finding(
        CODE,
        "error" if cause else "note",
        f"DDP would crash at step 1{apart}: reentrant checkpointing {cause}"
        if cause
        else "if a module runs twice, which is not known here, DDP crashes with reentrant "
        "checkpointing",
        remedies=(Choose(),),
        advice=(SetVariant(False),),
        evidence="own runs, torch 2.2 - 2.15: 'Expected to mark a variable ready only once'",
    )


def _cause(run: Run) -> str:
    """What makes a hook fire twice; "" if nothing does."""
    if run.find_unused is not False:
        return "with find_unused_parameters=True"
    if run.forwards > 1:
        return "with two forwards per backward"
    if run.shared:
        return "of blocks that share a weight"
    return "of a tower that runs more than once" if run.repeats == "yes" else ""
