"""A loss without a gradient.

What it does
    Explains an exception whose message has one of: element 0 of tensors does not require
    grad; loss must be a scalar tensor.

Why it is bad
    Nothing that trains is connected to the loss.

When it is wrong
    The message alone decides; the run's facts sharpen the advice.

Example
    element 0 of tensors does not require grad

Use instead
    set use_reentrant=False, or enable_input_require_grads(); look at what trains

Evidence
    huggingface/transformers, hiyouga/LlamaFactory#4905; catalogue row 14.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = (
    "element 0 of tensors does not require grad",
    "loss must be a scalar tensor",
)
ADVICE = "set use_reentrant=False, or enable_input_require_grads(); look at what trains "
WHY = "reentrant checkpointing over blocks whose input needs no gradient, or everything frozen "

CODE = "VG507"
NAME = "explain-no-grad-loss"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    return explained(CODE, MATCH, WHY, ADVICE, failure)
