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
    A newer DeepSpeed, the message names which; or use_reentrant=True (under ZeRO-3 only: under
    plain DDP it brings back 'ready only once')

Evidence
    deepspeedai/DeepSpeed#8148, huggingface/trl#6356; catalogue row 5.
"""

from __future__ import annotations

from dataclasses import replace

from vlmguard.compat import cases
from vlmguard.compat import choice as compat
from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = ("Recomputed values for the following tensors have different metadata",)
WHY = "non-reentrant checkpointing with frozen parameters under ZeRO-3, on a DeepSpeed that cannot"

CODE = "VG504"
NAME = "explain-recomputed-metadata"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    advice = (
        f"{_newer(run)}; or use_reentrant=True (under ZeRO-3 only: under plain DDP it brings "
        "back 'ready only once')"
    )
    return explained(CODE, MATCH, WHY, advice, failure)


def _newer(run: Run | None) -> str:
    """The oldest newer DeepSpeed on which non-reentrant is known to work for this run."""
    asked = replace(cases.of(run), checkpointing=("non_reentrant",)) if run else None
    named = compat.newer(asked, "deepspeed") if asked and asked.strategy == "zero3" else ""
    return f"DeepSpeed {named} or newer" if named else "a newer DeepSpeed"
