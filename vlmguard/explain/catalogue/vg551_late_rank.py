"""Ranks wait while one evaluates or saves."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_ALONE = Do(
    "no collective (gather, state_dict under ZeRO-3 or FSDP, save_pretrained) under `if rank == "
    "0`: every rank must enter it",
    "none",
)
_UNDER = Do(
    "{undermain}: state = accelerator.get_state_dict(model) (or the gather there) in front of the "
    "`if`, on every rank; under it save_pretrained(…, state_dict=state) alone: it gathers, and the "
    "other ranks never come to it; a longer time-out mends nothing",
    "none",
)
_WRITTEN = Do(
    "ls -l --time-style=full-iso {saved}; df -hT {saved}: written until the others gave up, or a "
    "network's disk: it is slow (a local disk, less to write); whole long before that: the rank "
    "hangs behind the save",
    "none",
)
_LOCAL = Do("save_local", "no optimizer state to resume from; the copying")
_STACK = Do(
    "for p in $(pgrep -u $USER -f '[p]ython'); do grep -qz '^RANK={absent}$' /proc/$p/environ && "
    "py-spy dump --pid $p; done: during the next save, on the machine of rank {absent} (pip "
    "install py-spy): what it does there",
    "a minute",
)
TORCHS = 10  # minutes that torch from 2.2 on gives a group of NCCL's of which nobody says more
FEW = 500  # rows that take no collective's time
# How long a collective waits by itself, in seconds: what the Trainers ask for.
_ASKED = {
    "ms-swift": 18000000,
    **dict.fromkeys(("transformers", "TRL", "LLaMA-Factory", "axolotl", "FlagEmbedding"), 1800),
}
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
        needs = (facts.number("needs") or 0) // 60
        gave += f" (by its bar it takes {needs} minutes in all)" if needs else ""
        return (
            f"one rank was still evaluating when the others {gave}: uneven evaluation data, a "
            "metric that one rank computes alone, or a collective under `if rank == 0`"
        )
    return (
        "one rank was still evaluating, gathering or writing when the others' collective timed "
        "out: uneven evaluation data, a slow disk, or code under `if rank == 0` with a collective "
        "in it"
    )


def _reaches(facts: Facts) -> bool:
    """Whether the framework's time-out is the one that ran out: else its flag mends nothing."""
    match = _MINUTES.search(facts.message)
    asked = facts.number("ddp_timeout") or _ASKED.get(facts.framework)
    return match is None or asked is None or abs(int(match[1]) // 1000 - asked) < 2


def _waited(facts: Facts) -> int:
    """How many minutes the collective waited, 0 where that is not told."""
    match = _MINUTES.search(facts.message)
    return int(match[1]) // 60000 if match else 0


def _callback(facts: Facts) -> Do:
    """Fewer rows where one rank works alone, by its own words: as many as half the time takes."""
    words, name = facts.said["alonewords"], facts.said.get("alonebar", "")
    needs, rows, waited = facts.number("needs"), facts.number("alonerows"), _waited(facts)
    few = FEW
    if needs and rows and waited:
        few = max(rows * waited * 60 // needs // 2 // 100 * 100, 100)
    edit = f"{name} = {name}.select(range({few}))" if name else f"rows = rows[:{few}]"
    takes = f" ({needs // 60} minutes in all)" if needs else ""
    gave = f" after {waited} minutes" if waited else ""
    return Do(
        f"{edit}, in the callback that prints '{words}' (grep -rn '{words}' --include='*.py' . "
        f"finds it): one rank alone is at work there{takes}, and the others give up{gave}; or all "
        "rows, rows[rank::world_size] on every rank, then dist.all_gather_object",
        "a smaller sample",
    )


def _longer(facts: Facts) -> Do:
    """A longer time-out: by the bar that tells how long the work takes, where there is one."""
    hours = max((facts.number("needs") or 0) // 3600 + 2, 2)
    values = (("hours", str(hours)), ("seconds", str(hours * 3600)))
    if _reaches(facts) or not facts.zero:
        return Do("timeout", "a real hang is noticed later", values)
    waited = _waited(facts)
    if waited == TORCHS:
        return Do(
            "torch.distributed.distributed_c10d.default_pg_nccl_timeout = "
            f"timedelta(hours={hours}), on a line in front of the Trainer (deepspeed.initialize): "
            f"DeepSpeed's own groups wait torch's {TORCHS} minutes, whatever --ddp_timeout, "
            "init_process_group or DEEPSPEED_TIMEOUT say",
            "a real hang is noticed later",
        )
    return Do(
        "DEEPSPEED_TIMEOUT=180 in front of the command: in minutes; the log's group waited "
        f"{waited}, which is DeepSpeed's and torch's own default and not the framework's "
        "--ddp_timeout",
        "a real hang is noticed later",
    )


def _do(facts: Facts) -> tuple[Do, ...]:
    if "undermain" in facts.said:
        return (_UNDER, _STACK)
    if "alonewords" in facts.said and facts.phase != "save":
        return (_callback(facts), _longer(facts), Do("fewer_evals", "no metrics"), _ALONE)
    longer = (_longer(facts),) if _reaches(facts) or facts.zero else ()
    first, last = (longer, ()) if _reaches(facts) else ((), longer)
    if facts.phase == "save":
        return (*first, _WRITTEN, _LOCAL, _STACK, _ALONE, *last)
    fewer, whole = Do("fewer_evals", "no metrics while it trains"), Do("eval_all", "none")
    if facts.phase:
        return (*first, whole, fewer, _ALONE, *last)
    return (*first, fewer, _ALONE, _LOCAL, *last)


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
