"""A second forward before the step, under Gemini, which was not told to accumulate.

What it does
    Stops where a training forward begins, a backward has run since the last step, and Gemini keeps
    gradients where the weights were.

Why it is bad
    Without enable_gradient_accumulation backward puts each gradient in its weight's place, and the
    step puts the weights back from their float32 copies. A forward in between computes with
    gradients for weights. With max_norm > 0 the next backward asserts; with max_norm = 0 it runs
    to its end without a word.

When it is wrong
    With master_weights=False gradients have a place of their own: not looked at there. Gradients
    that are thrown away by zero_grad leave the weights as they are, overwritten.

Example
    GeminiPlugin(max_norm=0), two times loss.backward() before one optimizer.step()

Use instead
    GeminiPlugin(enable_gradient_accumulation=True), or a step after each backward.

Evidence
    Own measurement: colossalai 0.5.0 on CPU, updates are 100 % to 151 % off, exit 0.
    gemini_ddp.py: reuse_fp16_chunk.
"""

from __future__ import annotations

from vlmguard.core.facts import Gradients, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard_colossalai.gemini_facts import Forward

CODE = "VG305"
NAME = "second-backward-gemini"
DEFAULT = "error"
FRAMEWORKS = ("colossalai",)


@hookimpl
def pre_step(run: Run, gradients: Gradients | None) -> Finding | None:
    if not isinstance(gradients, Forward) or not gradients.overwritten:
        return None
    return Finding(
        CODE,
        "error",
        "backward has run and no step since: this forward would use gradients as weights",
        scope="rank",
        advice=(
            "GeminiPlugin(enable_gradient_accumulation=True)",
            "optimizer.step() after every backward",
        ),
        evidence="own runs, colossalai 0.5.0",
    )
