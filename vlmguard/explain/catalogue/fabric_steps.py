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
_PORTS = Do(
    "ibstat {hca}; dmesg -T | grep -i {hca} | tail; perfquery, on {ibhost} and on {ibpeer}: a port "
    "that is not Active, a line “Link down”, or SymbolError and LinkDowned that grow: its cable or "
    "port of the switch, to the administrators",
    "none",
    kind="ports",
)
_PORT = Do(
    "ibstat; dmesg -T | grep -i mlx5 | tail; perfquery, on both nodes: a port that is not Active, "
    "a line “Link down”, or SymbolError and LinkDowned that grow: its cable or port of the switch, "
    "to the administrators",
    "none",
    kind="ports",
)
_AGAIN = Do("resume", "none")


def _of_port(node: str) -> tuple[Do, ...]:
    """The log tells whose port went down: the other node's errors follow."""
    return (
        Do(
            f"sbatch --exclude={node} with the same script, from its newest checkpoint: its "
            "InfiniBand port went down in this log (without Slurm: the hostfile without it)",
            "none",
        ),
        Do(
            f"ibstat; perfquery -x; dmesg -T | grep -i mlx5 | tail, on {node}: a port that is not "
            "Active, or LinkDowned that grows: its cable or port of the switch, to the "
            "administrators",
            "none",
        ),
    )


def steps(facts: Facts) -> tuple[Do, ...]:
    direct = Do(
        "NCCL_NET_GDR_LEVEL=LOC in front of the same command: data goes by the host's memory, not "
        "from card to card",
        "slower between nodes",
    )
    retries = Do(
        "NCCL_IB_TIMEOUT=22 in front of the same command, on every node: for a link that is slow "
        "to answer, not for one that is down (NCCL_IB_RETRY_CNT is at its most, 7, already)",
        "a real loss is noticed later",
    )
    index = Do(
        "NCCL_IB_GID_INDEX=3 in front of the same command, on every node (RoCE v2; show_gids lists "
        "the numbers of each card)",
        "none",
    )
    between = (
        Do(
            "ib_write_bw -d {hca} {ibpeer}, on {ibhost}, while ib_write_bw -d {hca} runs on "
            "{ibpeer} (perftest): where that fails too, both names to the administrators",
            "none",
            kind="between",
        ),
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
    named = _ADAPTER.search(facts.message)
    several = "adapters" in facts.said or (named is not None and named[1] != "mlx5_0")
    named = named if several else None
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
    # It worked for many steps: neither a setting nor the program, but a link that went.
    node = facts.said.get("portnode", "")
    if node and " " not in node:
        return (*_of_port(node), _AGAIN, *between)
    worked = facts.steps is not None and facts.steps[0] > 1
    ports = (_PORTS, _PORT) if worked else ()
    again = (_AGAIN,) if worked else ()
    memory = (direct,) if _MEMORY.search(facts.message) else ()
    roce = (index,) if "roce" in facts.said or "localGid" in facts.message else ()
    if worked:
        return (*memory, *ports, *(alone or (_WITHOUT,)), *again, *between, retries)
    given = "NCCL_IB_GID_INDEX=" in facts.said.get("env", "")
    if alone or given:
        return (*memory, *alone, _WITHOUT, *(() if given else roce), retries, *between)
    return (*memory, *roce, _WITHOUT, retries, *between)
