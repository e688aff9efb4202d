""" "Expected to mark a variable ready only once".

What it does
    Explains an exception whose message has one of: Expected to mark a variable ready only once.

Why it is bad
    A crash at step 1 after an hour in the queue, with a message about DDP's inside.

When it is wrong
    The message alone decides; the run's facts sharpen the advice.

Example
    Expected to mark a variable ready only once

Use instead
    set use_reentrant=False; or --ddp_static_graph true (without accumulation); or turn
    checkpointing off and take a smaller micro-batch with more accumulation, which keeps the
    global batch; or freeze the tower; or DeepSpeed ZeRO-2/3

Evidence
    ms-swift, FlagEmbedding, TRL threads; catalogue row 0 (seeds 1, 2, 4).
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = ("Expected to mark a variable ready only once",)
ADVICE = (
    "set use_reentrant=False; or --ddp_static_graph true (without accumulation); or turn "
    "checkpointing off and take a smaller micro-batch with more accumulation, which keeps "
    "the global batch; or freeze the tower; or DeepSpeed ZeRO-2/3 "
)
WHY = (
    "DDP saw a gradient of one parameter twice: reentrant checkpointing, or a module that "
    "runs twice in one forward "
)

CODE = "VG501"
NAME = "explain-ready-once"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    return explained(CODE, MATCH, WHY, ADVICE, failure)
