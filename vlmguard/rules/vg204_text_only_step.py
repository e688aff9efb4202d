"""A training step under ZeRO-3 in which no gradient reached a tower that trains.

What it does
    Before the optimizer steps, it looks for towers that got gradients in an earlier step and get
    none in this one. It judges by a tower's gradients, not by the batch. So it leaves alone a
    model or framework that runs the tower on a blank input of its own.

Why it is bad
    DeepSpeed does not clear the tower's partition buffer: the gradient of the last step with an
    image is applied again.

When it is wrong
    Under ZeRO-1/2 a step in which no rank has an image is right; the rule is silent there. It
    speaks of training steps only, never of evaluation or generation.

Example
    A model of which no blank input can be made, zero3, vision trainable, an image step, then a
    step of text alone

Use instead
    An image in every batch (a blank one is enough), or ZeRO-2. A tower that is not meant to train
    can be frozen.

Evidence
    deepspeed 0.15.3 - 0.19.8. Own measurement: 2 gloo ranks on CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Gradients, Run
from vlmguard.core.findings import Finding, FreezeTower, PadWithBlank, Strategy, listed
from vlmguard.core.hookspecs import hookimpl

CODE = "VG204"
NAME = "text-only-step"
DEFAULT = "error"


@hookimpl
def pre_step(run: Run, gradients: Gradients | None) -> Finding | None:
    if gradients is None or run.strategy != "zero3":
        return None
    stale = [tower.kind for tower in run.trained_towers if tower.kind in gradients.stale]
    if not stale:
        return None
    return Finding(
        CODE,
        "error",
        "DeepSpeed would apply an earlier step's gradient again: this step did not use "
        f"{listed(stale)}",
        scope="rank",
        advice=(PadWithBlank(), Strategy("zero2"), FreezeTower(",".join(stale), unmeant=True)),
    )
