""" "has already been reduced".

What it does
    Explains an exception whose message has one of: has already been reduced.

Why it is bad
    ZeRO-1/2 names a parameter by number or name and says nothing about why.

When it is wrong
    The message alone decides; the run's facts sharpen the advice.

Example
    has already been reduced

Use instead
    set use_reentrant=False; or --vit_gradient_checkpointing false; or freeze the tower; or
    ZeRO-1

Evidence
    deepspeedai/DeepSpeed#988, OpenBMB/MiniCPM-V#423; catalogue row 11.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Failure, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl
from vlmguard.rules.known import explained

MATCH = ("has already been reduced",)
ADVICE = (
    "set use_reentrant=False; or --vit_gradient_checkpointing false; or freeze the tower; "
    "or ZeRO-1 "
)
WHY = (
    "a gradient was computed twice for one ZeRO partition: a module used twice under "
    "reentrant checkpointing (a tower called once per image, two forwards before one "
    "backward) "
)

CODE = "VG502"
NAME = "explain-already-reduced"
DEFAULT = "warn"


@hookimpl
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Finding | None:
    return explained(CODE, MATCH, WHY, ADVICE, failure)
