"""Non-reentrant checkpointing under ZeRO-3 with frozen parameters, on a DeepSpeed that cannot.

What it does
    Fires where the compatibility tables say that reentrant is the variant that works and
    non-reentrant will run. The message names the verdict that was measured.

Why it is bad
    Frozen parameters are gathered in forward and not in recomputation: "Recomputed values
    for the following tensors have different metadata", at step 1.

When it is wrong
    The table decides, by torch and deepspeed release; the rule holds no release itself.

Example
    LoRA, ZeRO-3, use_reentrant false, deepspeed 0.19.2

Use instead
    A newer DeepSpeed, or use_reentrant=True.

Evidence
    deepspeedai/DeepSpeed#8148, huggingface/trl#6356; own runs on 17 (torch, deepspeed) pairs.
"""

from __future__ import annotations

from vlmguard.compat import choice as compat
from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, SetVariant, Upgrade
from vlmguard.core.hookspecs import hookimpl

CODE = "VG105"
NAME = "non-reentrant-frozen-zero3"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if not run.checkpointing.on or run.checkpointing.use_reentrant is not False:
        return None
    choice = compat.choose(run)
    if choice.verdict != "nothing" and choice.use_reentrant is not True:
        return None
    broken = choice.verdict_of("non_reentrant")
    return Finding(
        CODE,
        "error" if broken else "warning",
        _why(run, broken),
        remedies=(Choose(),),
        advice=(SetVariant(True), Upgrade("deepspeed")),
        evidence=choice.evidence,
    )


def _why(run: Run, broken: str) -> str:
    if broken:
        return f"non-reentrant checkpointing under {run.strategy} fails on these releases: {broken}"
    pair = f"torch {run.releases.get('torch', '?')}"
    if run.strategy.startswith("zero"):
        pair += f" with DeepSpeed {run.releases.get('deepspeed', '?')}"
    return f"not tested: {pair}; on releases near it only reentrant checkpointing always works"
