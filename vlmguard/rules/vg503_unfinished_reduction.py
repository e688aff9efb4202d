""" "Expected to have finished reduction in the prior iteration".

What it does
    Explains an exception whose message has one of: Expected to have finished reduction in
    the prior iteration.

Why it is bad
    DDP waits for gradients that never come.

When it is wrong
    The message alone decides; the run's facts sharpen the advice.

Example
    Expected to have finished reduction in the prior iteration

Use instead
    freeze the tower if it is not to train; or put an image in every batch; or
    --ddp_find_unused_parameters true with use_reentrant=False

Evidence
    huggingface/trl#6617, hiyouga/LlamaFactory#6376; catalogue row 6.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = ("Expected to have finished reduction in the prior iteration",)
ADVICE = (
    "freeze the tower if it is not to train; or put an image in every batch; or "
    "--ddp_find_unused_parameters true with use_reentrant=False "
)
WHY = (
    "some trainable parameters got no gradient: usually a vision tower that trains while a "
    "batch has no image "
)

CODE = "VG503"
NAME = "explain-unfinished-reduction"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    return explained(CODE, MATCH, WHY, ADVICE, failure)
