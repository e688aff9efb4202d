"""Reentrant checkpointing of blocks whose input carries no gradient.

What it does
    Fires if a tower holds trainable adapters, runs under reentrant checkpointing, and its first
    block's input does not require a gradient. It also fires if parameters of a small copy of the
    model get a gradient without checkpointing and none with it. This happens to blocks that are
    called with keyword arguments only, as in Llama4's vision tower.

Why it is bad
    If no input of a reentrant block requires a gradient, its output requires none either. The
    parameters in the block are then never updated. torch says so once, in a warning. In Llama4,
    37 of 41 tensors of the vision tower get no gradient, and the run ends with exit 0.

When it is wrong
    A frozen tower needs no gradient: the rule is silent there.

Example
    LoRA on the vision tower with input gradients only on the text embeddings

Use instead
    use_reentrant=False, or enable_input_require_grads() on the tower too.

Evidence
    haotian-liu/LLaVA, 2U1/Qwen-VL-Series-Finetune#193. Own measurement: 2 gloo ranks on
    CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, SetVariant, tail
from vlmguard.core.hookspecs import hookimpl

CODE = "VG104"
NAME = "no-input-gradient"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if not (run.checkpointing.on and run.checkpointing.use_reentrant):
        return None
    dead = [t.kind for t in run.towers if t.checkpointed and t.adapters and t.input_grads is False]
    if not dead:
        return _dropped(run)
    return Finding(
        CODE,
        "error",
        f"adapters in {', '.join(dead)} would never train: their reentrant blocks get inputs "
        "without a gradient",
        remedies=(Choose(),),
        advice=(SetVariant(False), "turn on input gradients for that tower"),
        evidence="own runs, torch 2.2 - 2.15: the update is exactly 0",
    )


def _dropped(run: Run) -> Finding | None:
    if not run.dropped:
        return None
    many = len(run.dropped)
    such = f"such as {tail(run.dropped[0])}" if many > 1 else tail(run.dropped[0])
    tensors = f"{many} tensors" if many > 1 else "a tensor"
    return Finding(
        CODE,
        "error",
        f"{tensors} would never train under reentrant checkpointing, {such}",
        remedies=(Choose(),),
        advice=(SetVariant(False),),
        evidence=f"tried on a copy of this model: no gradient of {run.dropped[0]}",
    )
