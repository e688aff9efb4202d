""" "Recomputed values … have different metadata".

What it does
    Explains an exception whose message has one of: Recomputed values for the following
    tensors have different metadata.

Why it is bad
    Recomputation sees parameters that ZeRO-3 has not gathered.

When it is wrong
    The message alone decides; the run's facts sharpen the advice.

Example
    Recomputed values for the following tensors have different metadata

Use instead
    DeepSpeed 0.19.3 or newer; or use_reentrant=True (under ZeRO-3 only: under plain DDP it
    brings back 'ready only once')

Evidence
    deepspeedai/DeepSpeed#8148, huggingface/trl#6356; catalogue row 5.
"""

from __future__ import annotations

from vlmguard.facts import Batch, Failure, Finding, Run
from vlmguard.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = ("Recomputed values for the following tensors have different metadata",)
ADVICE = (
    "DeepSpeed 0.19.3 or newer; or use_reentrant=True (under ZeRO-3 only: under plain DDP "
    "it brings back 'ready only once') "
)
WHY = (
    "non-reentrant checkpointing with frozen parameters under ZeRO-3, on a DeepSpeed before 0.19.3 "
)

CODE = "VG504"
NAME = "explain-recomputed-metadata"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    return explained(CODE, MATCH, WHY, ADVICE, failure)
