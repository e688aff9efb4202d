"""Steps for failures of which another rank's own words tell the cause: where these words are.

First what costs a minute (logs that exist, the kernel's), last a run with a log for each rank.
"""

from __future__ import annotations

from vlmguard.explain import looks
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import CARDS, Facts

_PODS = ("-master-", "-worker-", "-launcher-")

POD = Do(
    "kubectl logs {pod} --previous > {pod}.log || kubectl logs {pod} > {pod}.log; vlmguard explain "
    "{pod}.log: the connection to that pod was lost, its own log says why; kubectl describe pod "
    "{pod} | grep -A 6 'Last State': OOMKilled or an eviction leaves no word in a log",
    "none",
)
PEER = Do(
    "vlmguard explain {log} LOG_OF_{peer}: the connection to {peer} was lost, its own log says why",
    "none",
)
NODES = Do(
    "vlmguard explain {log} OTHER_NODES_LOG …, the logs of all nodes in one call (kubectl logs "
    "--previous POD > POD.log): whoever failed first says why in its own",
    "none",
)
STORE = Do(
    "vlmguard explain {log} FIRST_NODES_LOG: the first node holds the store on which the nodes "
    "meet; its torchrun ended, or was never reached: its own log says why",
    "none",
)
REACHED = Do(
    "nc -vz {host} {port}, on this node: refused: no torchrun listens there: start it, then all "
    "others; silent: a wrong --rdzv_endpoint or --master_addr, or a firewall",
    "none",
    kind="store",
)
REACHED_ANY = Do(
    "nc -vz FIRST_NODE PORT (of --rdzv_endpoint, or --master_addr and --master_port), on this "
    "node: refused: no torchrun listens there: start it, then all others; silent: a wrong address "
    "or a firewall",
    "none",
    kind="store",
)
_OTHERS = Do(
    "vlmguard explain {log} OTHER_LOG …, where the other ranks or nodes have logs of their own: "
    "whoever failed first says why in its own",
    "none",
)
KILLED = Do(
    "dmesg -T | grep -i -E 'killed process|oom|xid' | tail, on each machine (Slurm: sacct -j JOBID "
    "--format=JobID,State%30,ExitCode,MaxRSS): a line is what ended a rank without a word; none: "
    "all of them were alive",
    "none",
)
_SPY = (
    "pip install py-spy; for p in $(pgrep -u $USER python); do grep -qzx RANK={absent} "
    "/proc/$p/environ && py-spy dump --pid $p; done"
)
_AT_STALL = f"at the next stall {_SPY}: the line where it is"
ABSENT = Do(
    "dmesg -T | grep -i -E 'killed process|oom|xid' | tail, on rank {absent}'s machine: a line is "
    f"what ended it; none: it was alive: {_AT_STALL}",
    "none",
)
EMPTY = Do(
    "dmesg -T | grep -i -E 'killed process|oom|xid' | tail, on rank {absent}'s machine, whose own "
    f"log says nothing: a line is what ended it; none: {_AT_STALL}",
    "none",
)
HERE = Do(
    f"{_SPY}, at the next stall, before the time-out: rank "
    "{absent} is of this machine and of this log, and said nothing: the line where it is (a "
    "decoder or processor: its row's file; a forward: its row has no image, or many)",
    "as long as another stall",
)
_LIVED = "the launcher ended all of them, so none had been killed"
SILENT = Do(
    f"{_SPY}, at the next stall, before the time-out: where rank {{absent}} is ({_LIVED})",
    "as long as another stall",
)
WATCH = Do(
    f"{looks.SPY}, at the next stall, before the time-out: the one that is elsewhere than the "
    f"others ({_LIVED})",
    "as long as another stall",
)
RANK_LOGS = Do("rank_logs", "a run as long as this one")


def meeting(facts: Facts) -> bool:
    """Whether it is the launchers that lost one another, before or behind all ranks."""
    return "Rendezvous" in facts.message or "C10d store" in facts.message


def several_nodes(facts: Facts) -> bool:
    """Whether the log tells that there is more than one machine."""
    peer = facts.said.get("peer", "")
    told = facts.said.get("nnodes", "1") not in ("", "1") or (facts.world or 0) > CARDS
    return told or any(part in peer for part in _PODS)


def others(facts: Facts) -> tuple[Do, ...]:
    """The logs that lie elsewhere, if this is not all of them."""
    if "rank files" in facts.seen or "here" in facts.said:
        return ()
    if meeting(facts):
        return (STORE, REACHED, REACHED_ANY)
    if not several_nodes(facts):
        return () if facts.world else (_OTHERS,)
    peer = facts.said.get("peer", "")
    if any(part in peer for part in _PODS):
        return (POD,)
    return (PEER if peer else NODES,)


def late(facts: Facts) -> tuple[Do, ...]:
    """What ended the rank that did not come, or any of them."""
    if "none killed" in facts.seen:
        return (SILENT if "absent" in facts.said else WATCH,)
    if "absent" not in facts.said:
        return (KILLED,)
    if "here" in facts.said and "absentlast" not in facts.said:
        return (HERE,)
    return (EMPTY if facts.said.get("absentlast") == "" else ABSENT,)


def logs(facts: Facts) -> tuple[Do, ...]:
    """A log for each rank, unless that is what was read."""
    known = "rank files" in facts.seen or "here" in facts.said
    return () if known or meeting(facts) else (RANK_LOGS,)


def stage_2(facts: Facts) -> Do:
    """It gathers no weights; but the gradients of a tower that trains hang there as well: so did
    each cell of our matrix in which one rank alone had images."""
    if facts.freeze_tower is not False:
        cost = "more memory: each rank holds all weights"
        if not facts.freeze_tower and facts.framework not in _FROZEN:  # there it is the default
            cost += "; with the tower frozen: one that trains waits there"
        return Do("zero2", cost)
    then = _FROZEN.get(facts.framework, ", with the vision tower frozen")
    return Do("zero2", "more memory; the tower no longer learns", (("then", then),))


_FROZEN = {"ms-swift": " --freeze_vit true", "LLaMA-Factory": ", freeze_vision_tower: true"}
