"""Ranks wait while one evaluates or saves."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG551",
    name="explain-late-rank",
    title="The ranks wait for one that evaluates or saves",
    zh="评估或保存期间其余 rank 等待超时",
    why="one rank was still evaluating, gathering or writing when the "
    "others' collective timed out: uneven evaluation data, a slow "
    "disk, or code under `if rank == 0` with a collective in it",
    do=(
        Do("timeout", "a real hang is noticed later"),
        Do("fewer_evals", "no metrics while it trains"),
        Do(
            "no collective (gather, state_dict under ZeRO-3 or FSDP, "
            "save_pretrained) under `if rank == 0`: every rank must enter "
            "it",
            "none",
        ),
        Do("save to a local disk, then copy", "disk"),
    ),
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
