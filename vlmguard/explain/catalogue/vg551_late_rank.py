"""Ranks wait while one evaluates or saves."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_LONGER = Do("timeout", "a real hang is noticed later")
_ALONE = Do(
    "no collective (gather, state_dict under ZeRO-3 or FSDP, save_pretrained) under `if rank == "
    "0`: every rank must enter it",
    "none",
)
_WRITTEN = Do(
    "ls -l --time-style=full-iso {saved}: written until the others gave up: its disk is slow (the "
    "step above, and a local disk); whole long before that: the rank hangs behind the save",
    "none",
)
_LOCAL = Do("save to a local disk, then copy", "disk")
_MINUTES = re.compile(r"Timeout\(ms\)=(\d{4,10})")


def _why(facts: Facts) -> str:
    match = _MINUTES.search(facts.message)
    gave = f"gave up after {int(match[1]) // 60000} minutes" if match else "gave up"
    saved = facts.said.get("saved", "")
    if facts.phase == "save":
        what = f"writing {saved}" if saved else "writing a checkpoint"
        return (
            f"one rank was still {what} when the others {gave}: a slow disk, or a collective "
            "(a gather, state_dict) that only that rank enters"
        )
    if facts.phase == "evaluation":
        return (
            f"one rank was still evaluating when the others {gave}: uneven evaluation data, a "
            "metric that one rank computes alone, or a collective under `if rank == 0`"
        )
    return (
        "one rank was still evaluating, gathering or writing when the others' collective timed "
        "out: uneven evaluation data, a slow disk, or code under `if rank == 0` with a collective "
        "in it"
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if facts.phase == "save":
        return (_LONGER, _WRITTEN, _LOCAL, _ALONE)
    fewer = Do("fewer_evals", "no metrics while it trains")
    return (_LONGER, fewer, _ALONE) if facts.phase else (_LONGER, fewer, _ALONE, _LOCAL)


FAILURE = Known(
    code="VG551",
    name="explain-late-rank",
    title="The ranks wait for one that evaluates or saves",
    zh="评估或保存期间其余 rank 等待超时",
    why=_why,
    do=_do,
    wrong="If the time-out comes at every save and the disk is fast, a "
    "rank never enters: not slowness.",
    signs=(
        Sign("all ranks must call"),
        Sign("should be called on all ranks"),
    ),
    examples=(
        Example(
            "[rank1]:[E1121 14:45:14.123456789 ProcessGroupNCCL.cpp:616] "
            "[Rank 1] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=1201, OpType=_ALLGATHER_BASE, NumelIn=1, "
            "NumelOut=8, Timeout(ms)=1800000) ran for 1800012 milliseconds "
            "before timing out.",
            "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, 2.4; after "
            "'***** Running Evaluation *****'",
        ),
    ),
    evidence="Threads on time-outs at evaluation and saving in transformers and accelerate.",
    order="hang",
)
