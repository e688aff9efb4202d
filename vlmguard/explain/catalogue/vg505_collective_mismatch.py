"""Ranks that wait for different collectives."""

from __future__ import annotations

import re
from dataclasses import replace

from vlmguard.explain import architectures, limits, looks, spelling
from vlmguard.explain.catalogue import ranks_steps as ranks
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts


def _why(facts: Facts) -> str:
    if _FIRST.search(facts.message):
        return (
            "it is one of the run's first collectives, before any row is read: the ranks cannot "
            "reach each other on the way that NCCL chose (PCIe, NVLink, InfiniBand, a wrong "
            "interface), or one of them is not there; images have nothing to do with it"
        )
    if _buffers(facts):
        return (
            "every rank is alive; before each forward DDP copies the first rank's buffers to all "
            "others, and on one rank a buffer has another size: a cache that grew with what that "
            "rank saw; images that are missing have nothing to do with it"
        )
    if _NUMBER.search(facts.message):
        return (
            "the others wait in a collective of a single number (a loss, a metric, a flag), which "
            "one rank never entered: it does something alone (evaluates, saves, logs, uploads), "
            "left the loop earlier, or it failed or was killed, which its own log then tells; "
            "gradients are not what they wait for"
        )
    if _saves(facts):
        return (
            "the ranks wait where a model is saved, that lies on all of them: one rank gathers "
            "what the others do not give, as it is alone there, or writes for too long"
        )
    start = (
        _ALIVE
        if "all wait" in facts.seen
        else _PARTED
        if "parted" in facts.seen
        else (
            "one rank waits in a collective that another never entered: that one went another way, "
            "or it failed or was killed, which its own log then tells"
        )
    )
    if facts.zero in (0, 1, 2) or facts.strategy == "ddp":
        return (
            f"{start}. With a tower that trains: most often one had an image and another had none"
        )
    if _experts(facts) and not facts.vision:
        many = (
            "; that many collectives in one step are weights of single experts"
            if _MANY.search(facts.message)
            else ""
        )
        return (
            f"{start}. The model is a mixture of experts, and the ranks wait for weights: ZeRO-3 "
            f"gathers each expert's by itself, and a rank whose tokens chose others gathers "
            f"others{many}"
        )
    if facts.zero == 3 or facts.fsdp:
        return (
            f"{start}. Under {facts.strategy} every forward gathers, of a "
            f"frozen tower as well: most "
            "often one rank had an image and another had none; with a tower that runs once per "
            "image, another number of them; in mixtures of experts, one chose other experts"
        )
    return f"{start}. In vision-language training most often one rank had an image and another none"


_PARTED = (
    "these ranks are alive and wait in the same place for tensors of different sizes: they went "
    "different ways through the model, nobody was killed"
)
_ALIVE = (
    "every rank is alive and waits, and not in the same collective: none failed before, one went "
    "another way through the model"
)
# The first collectives of a run come before any row: what hangs in them are the ranks' links.
_FIRST = re.compile(r"SeqNum=[1-3], ")
_MANY = re.compile(r"SeqNum=\d{5,}")
_NUMBER = re.compile(r"NumelIn=1,")
_ALONE = Do(
    "what one rank does alone (if rank == 0: evaluate, save, push) on all ranks, or let the others "
    "wait for it with a longer ddp_timeout",
    "none",
)
_LINKS = (
    Do(
        "NCCL_DEBUG=INFO NCCL_P2P_DISABLE=1 in front of the command: it runs: the cards cannot "
        "reach each other directly (IOMMU or PCIe ACS is on), keep it so; it hangs still: its "
        "last NCCL lines name the interface and the peer (next step)",
        "slower between the cards of a node",
    ),
    Do(looks.NETWORK, "none, on one node: no change", kind="route"),
    Do(looks.ROUTE, "none, on one node: no change", kind="route"),
    Do("NCCL_IB_DISABLE=1 in front of the command: it runs: InfiniBand is at fault", "slower"),
)
_FIND = (
    Do(
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 "
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=$PWD/nccl_trace_ in front of the command: the next "
        "time-out writes a file for each rank that is alive, which torchfrtrace "
        "--prefix nccl_trace_ . compares (gloo: TORCH_DISTRIBUTED_DEBUG=DETAIL)",
        "as long as another time-out",
    ),
)


_LINES = Do(
    "grep -nE 'File .*, line [0-9]+' {log} | grep -vE 'packages/|/lib/python': each rank's own "
    "last line; where they differ, one rank went another way (an if on its rank or its rows)",
    "none",
)
_HUGE = Do(
    looks.HUGE + ".: images of more than 50 million pixels below this folder (its name in place of "
    "the dot): rank {absent}'s last words are of one: take their rows out or store them smaller",
    "none",
)


# A model that lies on all ranks is saved by all of them.
_MAIN = Do(
    "grep -nE 'is_main_process|rank *== *0|rank\\(\\) *== *0' {main}: save_state, save_model and "
    "state_dict of a model that lies on all ranks (FSDP, ZeRO-3) have to be called by all of them, "
    "outside of it: here one rank stands in its save alone",
    "none",
    kind="main",
)
_MAIN_ANY = replace(_MAIN, action=_MAIN.action.replace("' {main}", "' -r --include='*.py' ."))
_SHARDS = (
    Do(
        "FSDP_STATE_DICT_TYPE=SHARDED_STATE_DICT in front of the command, under FSDP: each rank "
        "writes its part, accelerate merge-weights FOLDER OUT puts them together afterwards",
        "one more step by hand",
    ),
)


def _saves(facts: Facts) -> bool:
    """Whether ranks that all live wait in a save, or gather behind the last step."""
    over = facts.steps is not None and facts.steps[0] >= facts.steps[1] > 1
    gathers = "GATHER" in facts.message
    return gathers and (over or (facts.phase == "save" and "all wait" in facts.seen))


def _find(facts: Facts) -> tuple[Do, ...]:
    """Who failed or stayed behind: what exists already first, then what costs another run."""
    smaller = Do("max_pixels", "smaller images", limits.fewer_pixels(facts))
    huge = (_HUGE, smaller) if "DecompressionBomb" in facts.said.get("absentlast", "") else ()
    return (*ranks.others(facts), *huge, *ranks.late(facts), *ranks.logs(facts), *_FIND)


def _do(facts: Facts) -> tuple[Do, ...]:
    if _FIRST.search(facts.message) and "absent" in facts.said:  # busy still, or dead
        slow = Do("timeout", "a real hang is noticed later")
        return (*ranks.late(facts), slow, *_LINKS, *ranks.logs(facts))
    if _FIRST.search(facts.message):
        return (*_LINKS, *ranks.logs(facts), *_FIND)
    if _saves(facts):
        return (_MAIN, _MAIN_ANY, *ranks.late(facts), *_SHARDS, *ranks.logs(facts), *_FIND)
    if "disagreement" in facts.message:  # ZeRO-3's own check of what it gathers
        ways = [do for do in _by_rows(facts) if do is not _LEAVES]
        return (*ways, _LEAVES, *_find(facts))
    if _NUMBER.search(facts.message):
        return (*_find(facts), _ALONE)
    if "mismatch between collectives" in facts.message:  # torch's own check: all are alive
        steps = (*_by_rows(facts), *_elsewhere(facts))
        trainer = "transformers/trainer.py" in facts.trace  # its own frames are every rank's last
        return steps if trainer and steps else (_LINES, *steps)
    if _buffers(facts):
        return _BUFFERS
    if "parted" in facts.seen and not _experts(facts):  # nobody was killed
        return (*_by_rows(facts), *_elsewhere(facts), *_FIND)
    if "all wait" in facts.seen:  # no log holds more
        return (*_by_rows(facts), *_FIND, *_elsewhere(facts))
    if not facts.vision:  # nothing says that it sees: look first
        last = () if _experts(facts) else looks.BLANK
        return (*_experts(facts), *_find(facts), *_elsewhere(facts), *last)
    if "absent" in facts.said:  # one rank alone did not come: where is it?
        return (*_find(facts)[:-1], *_by_rows(facts), *_FIND, *_elsewhere(facts))
    return (*_by_rows(facts), *_elsewhere(facts), *_find(facts))


def _foreseen(facts: Facts) -> bool:
    """Not of links, of buffers, nor of what one rank does alone: no tower is idle there."""
    said = facts.message
    return not (_FIRST.search(said) or _NUMBER.search(said) or _buffers(facts))


def _buffers(facts: Facts) -> bool:
    """Whether it is DDP's broadcast of a model's buffers, of which one rank's has another size."""
    broadcast = "parted" in facts.seen and "OpType=BROADCAST" in facts.message
    return broadcast and facts.strategy in ("ddp", "")


_BUFFERS = (
    Do("no_broadcast", "none where buffers are tables: each rank keeps its own"),
    Do(
        "print({n: b.shape for n, b in model.named_buffers()}), on each rank after some steps: the "
        "one whose size differs (a cache that grows with its input): made in its full size, or a "
        "plain attribute in place of register_buffer",
        "none",
    ),
    Do("zero2", "none for the result; DeepSpeed broadcasts no buffers"),
)
_LEAVES = Do("leaf_modules", "experts of a layer are gathered together: more memory")


def _experts(facts: Facts) -> tuple[Do, ...]:
    """What a mixture of experts wants whose weights are gathered one by one."""
    if not architectures.mixed(facts) or not gathers(facts) or facts.fsdp:
        return ()
    return (_LEAVES, Do("zero2", "more memory: each rank holds all weights"))


def gathers(facts: Facts) -> bool:
    """Whether weights are gathered for each forward: told, or by what the ranks wait in."""
    asked = facts.strategy == "" and "OpType=_ALLGATHER_BASE" in facts.message
    asked = asked or "disagreement" in facts.message  # ZeRO-3's own check of what it gathers
    return facts.zero == 3 or facts.fsdp or asked


def _by_rows(facts: Facts) -> tuple[Do, ...]:
    """What makes the ranks' ways through the model alike, whatever their rows."""
    parted = "parted" in facts.seen and gathers(facts)
    told = facts.vision or parted or "disagreement" in facts.message
    if not told and (facts.strategy in ("ddp", "") or (facts.zero or 3) < 3):
        return _experts(facts)
    if not gathers(facts):
        return (*looks.BLANK, Do("freeze_tower", "the tower no longer learns"), _GUARD)
    trains = facts.freeze_tower is False
    ways = (*looks.BLANK, ranks.stage_2(facts)) if trains else (ranks.stage_2(facts), *looks.BLANK)
    ways = (_GUARD, *ways) if spelling.lacks_blank(facts) else (*ways, _GUARD)
    return (*_experts(facts)[:1], *ways)


_GUARD = Do("dummy_image", "one small forward of the tower in batches of text")


def _elsewhere(facts: Facts) -> tuple[Do, ...]:
    if facts.strategy not in ("ddp", "") or gathers(facts):
        return ()
    return (Do("find_unused", "under DDP only; not with reentrant checkpointing"),)


FAILURE = Known(
    code="VG505",
    name="explain-collective-mismatch",
    title="Ranks wait in a collective for one that does not come",
    zh="各 rank 执行了不同的集合通信，互相等待直至超时（常见原因：有的 rank 有图像，有的没有）",
    why=_why,
    do=_do,
    wrong=(
        "A longer time-out only stretches the stall. If another rank "
        "failed first, its message is the "
        "cause. A lock or a download that timed out is another matter."
    ),
    signs=(
        Sign("Collectives differ in the following aspects", where="line"),
        Sign("Exception raised from checkTimeout at", where="line"),
        Sign("Detected mismatch between collectives on ranks", releases="torch ≥ 1.11"),
        Sign("Watchdog caught collective operation timeout", releases="torch ≥ 1.10"),
        Sign("Watchdog caught collective operation timeout", where="line"),
        Sign("Watchdog caught collective", where="line"),  # cut
        Sign("Collective operation timeout: WorkNCCL", where="line"),
        Sign("failure detected by watchdog at work", where="line", releases="torch ≥ 2.6"),
        Sign("detected by watchdog at work: ", where="line", releases="torch 2.4 to 2.5"),
        Sign("Collective operation timeout"),
        Sign("Timed out waiting", also=("for recv operation",), releases="gloo"),
        Sign("Timed out waiting", also=("for send operation",), releases="gloo"),
        Sign("op.preamble.length <= op.nbytes", releases="gloo"),
        Sign("Detected a disagreement on list", releases="DeepSpeed 0.19.8"),
        Sign("disagreement on list contents", releases="DeepSpeed 0.19.8"),
        Sign("still have inflight params", releases="DeepSpeed 0.14.5"),
        Sign("Rank", also=("failed to pass monitoredBarrier",), releases="torch ≥ 1.9, gloo"),
        Sign("tracing error at step", releases="DeepSpeed"),
        Sign("disagreement between rank0 and rank", releases="DeepSpeed"),
        Sign("rank1 vs rank0", also=("assert_ints_same_as_other_ranks",), where="trace"),
        Sign("assert_ints_same_as_other_ranks", where="trace", releases="DeepSpeed"),
        Sign(
            "To avoid data inconsistency, we are taking the entire process down",
            where="line",
            releases="torch ≥ 1.8",
        ),
        Sign("Some NCCL operations have failed or timed out", releases="torch ≥ 1.8"),
        Sign("Some NCCL operations have failed or timed out", where="line"),
        Sign("watchdog got stuck for", where="line"),
        Sign("Timeout at NCCL work", where="line", releases="torch 2.4 to 2.6"),
        Sign("Received a dump signal due to a collective timeout", where="line"),
        Sign("watchdog got stuck for"),
        Sign("Message truncated : received"),
        Sign("Notify register times out", releases="HCCL, EI0002"),
        Sign("EI0002", releases="HCCL"),
        Sign("EI0002: ", where="line", no=("arning",), releases="HCCL"),
        Sign("Stream synchronize timeout", where="line", releases="CANN, EE1002"),
        Sign("reason=[stream sync timeout]", releases="CANN"),
        Sign("HcclAllreduce", also=("imeout",)),
        Sign("reason=[task timeout]", where="line", no=("arning",), releases="CANN"),
        Sign("reason=[task timeout]", releases="CANN"),
        Sign(
            "Invalid mt19937 state", releases="accelerate: a rank got another collective's tensor"
        ),
        Sign("timed out in blocking wait"),
        Sign("timed out in blocking wait", where="line"),
        Sign("WorkNCCL::checkTimeout", where="line"),
        Sign("Exception raised from checkTimeout", where="line"),
        Sign("failed to pass monitoredBarrier", where="line"),
        Sign("Application timeout caused pair closure", releases="gloo"),
        Sign("due to ProcessGroupNCCL watchdog hang"),
        Sign("due to ProcessGroupNCCL watchdog hang", where="line"),
        Sign("Heartbeat monitor timed out", where="line", releases="torch ≥ 2.2"),
        Sign("partitioned_param_coordinator.py in reset_step()", where="within"),
    ),
    examples=(
        Example(
            "[rank1]:[E1121 14:45:14.123456789 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=1201, "
            "OpType=ALLREDUCE, NumelIn=4194304, "
            "NumelOut=4194304, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.",
            "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, 2.4",
        ),
        Example(
            "RuntimeError: Detected mismatch between collectives on ranks. "
            "Rank 1 is running collective: "
            "CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE",
            "made by causing it, torch 2.13.0, two gloo ranks, TORCH_DISTRIBUTED_DEBUG=DETAIL",
        ),
    ),
    evidence="deepspeedai/DeepSpeed#7170, huggingface/transformers#37186, "
    "hiyouga/LlamaFactory#6233, QwenLM/Qwen3-VL#126; rows 1, 10, "
    "18.",
    foreseen=_foreseen,
    prevented=("VG106",),
    order="hang",
)
