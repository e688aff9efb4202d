"""A text-only batch under ZeRO-3 while the tower trains and nothing completes it.

What it does
    Fires on a batch without an image, where VG108 could not put a dummy image in.

Why it is bad
    Either ranks differ and hang, or all skip the tower and the last image's gradient is
    applied again.

When it is wrong
    Under ZeRO-1/2 a step in which no rank has an image is right; the rule is silent there.

Example
    Gemma3, zero3, vision trainable, mixed data

Use instead
    Freeze the tower, ZeRO-2, or images in every batch.

Evidence
    deepspeed 0.15.3 - 0.19.8. Own measurement: 2 gloo ranks on CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Gradients, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG204"
NAME = "text-only-step"
DEFAULT = "error"


@hookimpl
def pre_step(run: Run, batch: Batch | None, gradients: Gradients | None) -> Finding | None:
    if batch is None or run.strategy != "zero3" or run.idle == "no" or not run.sees:
        return None
    if batch.completed or not batch.kinds or batch.kinds != ("text",):
        return None
    return Finding(
        CODE,
        "error",
        "this batch has no image while vision trains under ZeRO-3: ranks hang, or the gradient of "
        "the last image is applied again",
        scope="rank",
        advice="freeze the tower, use ZeRO-2, or put an image in every batch",
    )
