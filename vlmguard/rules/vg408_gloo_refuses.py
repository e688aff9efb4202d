"""A DeepSpeed release whose ZeRO-1/2 step fails on gloo.

What it does
    Warns under ZeRO-1 and ZeRO-2 where the tables hold a note on the installed DeepSpeed:
    it was seen to fail on gloo, and to be right where gloo's check is not made.

Why it is bad
    The first step writes into a tensor that requires grad: "Output 0 of SplitBackward0 is a
    view and is being modified inplace". A run on CPU, or one with --ddp_backend gloo, ends
    there. NCCL was not run; one public report has nearly the same message.

When it is wrong
    If the step works on your machine. Then you can ignore the message.

Example
    deepspeed 0.18.9, zero2, --ddp_backend gloo

Use instead
    DeepSpeed 0.19 or later, or 0.18.6.

Evidence
    Own runs: torch 2.8 with deepspeed 0.18.9, tensors handed to gloo as they come (fails) and
    detached (right). docs/compatibility.md, "Where gloo itself differs".
"""

from __future__ import annotations

from vlmguard.compat import choice as compat
from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG408"
NAME = "gloo-refuses"
DEFAULT = "warn"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    notes = compat.choose(run).notes
    if not notes:
        return None
    return Finding(
        CODE,
        "warning",
        notes[0],
        advice="pip install 'deepspeed>=0.19.3'",
        evidence="own runs on gloo, torch 2.8 with deepspeed 0.18.9",
    )
