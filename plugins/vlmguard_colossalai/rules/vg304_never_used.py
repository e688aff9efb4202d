"""Trainable parameters that a model never uses, under Gemini.

What it does
    Freezes, before boost, the parameters that this model family's forward leaves out whatever
    the batch.

Why it is bad
    Gemini keeps an unused parameter's weights where the optimizer expects its gradient: with
    max_norm > 0 every step asserts, with max_norm = 0 the weights are taken for gradients.

When it is wrong
    Elsewhere such a parameter gets no gradient and does not move, so freezing it changes nothing.

Example
    LLaVA-1.5's post_layernorm and last vision layer: its features are taken before them
    (vision_feature_layer = -2)

Use instead
    Freeze them before boost.

Evidence
    huggingface/trl#1936. Own measurement: colossalai 0.5.0 on CPU, LLaVA, transformers 4.51.3.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, Freeze, tail
from vlmguard.core.hookspecs import hookimpl

CODE = "VG304"
NAME = "never-used-gemini"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    unused = run.never_used
    if run.strategy != "gemini" or not unused:
        return None
    return Finding(
        CODE,
        "error",
        f"Gemini would crash or train wrongly: forward never uses {len(unused)} trainable tensors "
        f"({tail(unused[0], 30)})",
        remedies=(Freeze(unused),),
        advice="if they are not meant to train, freeze them before boost",
        evidence="huggingface/trl#1936; own runs, colossalai 0.5.0",
    )
