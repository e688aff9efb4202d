"""Gemini's own failures over a parameter without a gradient.

What it does
    Explains `ZERO DDP error`, `you are calculating the l2 norm twice`, `object has no attribute
    'payload'`, and whatever fails inside `_calc_global_norm`: a bare assertion there, and a
    TypeError under `python -O`.

Why it is bad
    None of them names the cause: a trainable parameter that this window's batches did not use.

When it is wrong
    The norm calculated twice also means accumulation without
    enable_gradient_accumulation=True.

Example
    assert grad_chunk.l2_norm is not None

Use instead
    A dummy image in text-only batches or a frozen tower; TorchDDPPlugin when memory allows;
    accumulation (enable_gradient_accumulation=True) with an image first in each window;
    max_norm 1.0 to 5.0 rather than 0, which hides it; text first and then vision, in two runs.

Evidence
    hpcaitech/ColossalAI#6102, #5290; catalogue row 25. Own measurement: colossalai 0.5.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = (
    "ZERO DDP error",
    "you are calculating the l2 norm twice",
    "object has no attribute 'payload'",
)
WHY = (
    "a trainable parameter got no gradient in this window: usually a vision tower that trains "
    "while a batch has no image"
)
ADVICE = (
    "a dummy image in text-only batches (guard_booster(booster, processor=…)) or a frozen tower; "
    "or TorchDDPPlugin(find_unused_parameters=True) when memory allows; or "
    "enable_gradient_accumulation=True with an image in each window's first batch; max_norm "
    "between 1.0 and 5.0, since 0 hides this and corrupts the weights; or text first and then "
    "vision, in two runs"
)

CODE = "VG508"
NAME = "explain-gemini-unreduced"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    if _in_norm(failure.error):
        return Finding(CODE, "error", WHY, scope="rank", advice=ADVICE)
    return explained(CODE, MATCH, WHY, ADVICE, failure)


def _in_norm(error: BaseException | None) -> bool:
    """The assertion has no message: only where it was raised tells."""
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_name == "_calc_global_norm"
