"""Ranks that wait for different collectives.

What it does
    Explains an exception whose message has one of: Detected mismatch between collectives on
    ranks; Watchdog caught collective operation timeout; Timed out waiting; Connection
    closed by peer; Collective operation timeout.

Why it is bad
    One rank skipped something that the others wait for, and the log shows only the wait.

When it is wrong
    The message alone decides; the run's facts sharpen the advice.

Example
    Detected mismatch between collectives on ranks

Use instead
    put an image in every batch (a dummy one in the data), or freeze the tower, or under DDP
    --ddp_find_unused_parameters true; a longer timeout only stretches the stall. If another
    rank failed first, its message is the cause

Evidence
    deepspeedai/DeepSpeed#7170, hiyouga/LlamaFactory#6233; catalogue row 1.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = (
    "Detected mismatch between collectives on ranks",
    "Watchdog caught collective operation timeout",
    "Timed out waiting",
    "Connection closed by peer",
    "Collective operation timeout",
)
ADVICE = (
    "put an image in every batch (a dummy one in the data), or freeze the tower, or under "
    "DDP --ddp_find_unused_parameters true; a longer timeout only stretches the stall. If "
    "another rank failed first, its message is the cause "
)
WHY = (
    "the ranks did different things: most often one had an image and another had none "
    "while the tower trains "
)

CODE = "VG505"
NAME = "explain-collective-mismatch"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    return explained(CODE, MATCH, WHY, ADVICE, failure)
