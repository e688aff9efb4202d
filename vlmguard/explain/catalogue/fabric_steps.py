"""InfiniBand and RoCE: what decides between a fabric that is at fault and a program."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

COMPLETION = ("ompletion from peer", "ot completion with error", "IBV_WC_RETRY", "Got CQE with")
# Of the card's own memory, not of the way: GPUDirect.
_MEMORY = re.compile(r"(?:error |status=)(?:4|10)\b|LOC_PROT|REM_ACCESS")
_ADAPTER = re.compile(r"\bhca (mlx5_\w{1,12})\b")

_WITHOUT = Do(
    "NCCL_IB_DISABLE=1 in front of the same command, on every node, as a test: if it then works, "
    "the fabric between these nodes is at fault, not the program",
    "much slower between nodes",
)


def steps(facts: Facts) -> tuple[Do, ...]:
    direct = Do(
        "NCCL_NET_GDR_LEVEL=LOC in front of the same command: data goes by the host's memory, not "
        "from card to card",
        "slower between nodes",
    )
    retries = Do(
        "NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=13 in front of the same command: for a link that is "
        "slow to answer, not for one that is down",
        "a real loss is noticed later",
    )
    index = Do(
        "NCCL_IB_GID_INDEX=3 in front of the same command, on every node (RoCE v2; show_gids lists "
        "the numbers of each card)",
        "none",
    )
    between = (
        Do(
            "ib_write_bw {ibpeer}, on {ibhost}, while ib_write_bw runs on {ibpeer} (perftest): "
            "where that fails too, ibstat and perfquery on both, and both names to the "
            "administrators",
            "none",
            kind="between",
        ),
        Do(
            "ibstat, and perfquery, on both nodes: a link that is not Active, or whose errors "
            "grow: its node's name to the administrators; the job without it (#SBATCH "
            "--exclude=NODE)",
            "none",
            kind="between",
        ),
    )
    named = _ADAPTER.search(facts.message) if "adapters" in facts.said else None
    alone = (
        (
            Do(
                f"NCCL_IB_HCA=^{named[1]} in front of the same command, on every node: without the "
                "adapter that the message names: if it then works, its link is at fault, the cable "
                f"or the port of the switch (ibstat {named[1]}, on both nodes)",
                "a part of the bandwidth",
            ),
        )
        if named is not None
        else ()
    )
    memory = (direct,) if _MEMORY.search(facts.message) else ()
    roce = (index,) if "roce" in facts.said or "localGid" in facts.message else ()
    return (*memory, *alone, _WITHOUT, *roce, retries, *between)
