"""Trainable parameters that forward did not touch, under Gemini.

What it does
    Looks before backward, where leaving is still safe, at which trainable parameters any
    operation has used: of all forwards since the last backward, or of the whole window with
    enable_gradient_accumulation. Where optimizer.backward is called without the booster, it
    looks before the step.

Why it is bad
    Gemini keeps an unused parameter's weights where the optimizer expects its gradient: the
    step asserts, or takes weights for gradients. After backward it is too late to skip a batch:
    fp16 parameters then hold gradients.

When it is wrong
    A parameter that a release leaves out of its chunks (frozen ones) is not looked at.

Example
    LLaVA-1.5's post_layernorm, which no loss depends on; a text-only batch in a model that
    vlmguard does not know

Use instead
    Freeze the parameters that are never used, before boost; complete the batch; or
    TorchDDPPlugin(find_unused_parameters=True) when memory allows.

Evidence
    huggingface/trl#1936. Own measurement: colossalai 0.5.0 on CPU.
"""

from __future__ import annotations

from vlmguard.core.facts import Gradients, Run
from vlmguard.core.findings import Finding, tail
from vlmguard.core.hookspecs import hookimpl
from vlmguard_colossalai.gemini_facts import Forward

CODE = "VG303"
NAME = "untouched-gemini"
DEFAULT = "error"
FRAMEWORKS = ("colossalai",)


@hookimpl
def pre_step(run: Run, gradients: Gradients | None) -> Finding | None:
    if not isinstance(gradients, Forward) or run.strategy != "gemini":
        return None
    names = [name for group in gradients.untouched.values() for name in group]
    if not names:
        return None
    return Finding(
        CODE,
        "error",
        f"Gemini would crash or train wrongly: forward did not use {len(names)} trainable "
        f"parameters, such as {tail(names[0])}",
        scope="rank",
        advice=(
            "give every row an image",
            "if they are not meant to train, freeze them before boost",
        ),
        evidence=f"own runs, colossalai 0.5.0; {', '.join(gradients.untouched)}: {names[0]}",
    )
