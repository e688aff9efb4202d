"""A rank came too late to the first meeting."""

from __future__ import annotations

from vlmguard.explain import prepared
from vlmguard.explain.catalogue import pods_steps
from vlmguard.explain.catalogue import ranks_steps as ranks
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_STEPS = (
    Do(
        "accelerate launch --main_process_port 29500 --main_process_ip "
        "ADDRESS_OF_THE_FIRST_NODE …: "
        "the port was not given",
        "none",
        when=("'None:None'", "port number of the rendezvous"),
        kind="reach",
    ),
    Do(
        "nc -vz {host} {port}, on the node that waited; ss -ltnp 'sport = :{port}' on {host}: "
        "nobody listens, or a firewall is between them",
        "none",
        kind="reach",
    ),
    Do(
        "getent hosts $MASTER_ADDR; nc -vz $MASTER_ADDR $MASTER_PORT on each of several "
        "nodes: the address may be unknown there, or behind a firewall",
        "none",
        when=("connect", "resolve", "ocket", "Rendezvous", "rendezvous"),
        kind="reach",
    ),
    Do("preprocess", "one run beforehand"),
    Do("timeout", "a real hang is noticed later"),
)


MANY = 16  # processes that prepare data: the steps ask for no fewer
LONG = 7200  # seconds: longer than most data sets take


def _do(facts: Facts) -> tuple[Do, ...]:
    """A rank that is still at work when the others give up needs more time, or none at all."""
    if facts.phase != "data":
        reach = tuple(do for do in _STEPS if do.kind == "reach")
        more = tuple(do for do in _STEPS if do.kind != "reach")
        return (
            *pods_steps.early(facts),
            *reach,
            *ranks.others(facts),
            *ranks.late(facts),
            *more,
            *ranks.logs(facts),
        )
    longer = (facts.number("ddp_timeout") or 0) >= LONG
    many = (facts.number("map_workers", *prepared.FLAGS) or 0) >= MANY
    slow = Do("timeout", "a real hang is noticed later")
    apart = (slow, *(() if many else (Do("map_more", "none"),)))
    yaml = facts.framework in ("LLaMA-Factory", "axolotl")
    both = (Do("map_and_wait", "a real hang is noticed later"),)
    soon = apart if yaml or (many and facts.framework != "ms-swift") else both
    work = (
        *((() if many else (Do("map_more", "none"),)) if longer else soon),
        Do(
            "python {main} with the same arguments, on one process (no torchrun), until it "
            "begins to train: the ranks then find what it prepared in the cache",
            "one run beforehand",
            kind="prepared",
        ),
        Do("preprocess", "one run beforehand", kind="prepared"),
    )
    return (*work, *ranks.late(facts), *ranks.logs(facts))


def _moved(facts: Facts) -> str:
    """Whether its bar went on, as far as the log has two of them."""
    if "map_bar" in facts.said:
        return f"its bar still moved at the end ({facts.said['map_bar']})"
    return "if its bar still moved at the end"


def _why(facts: Facts) -> str:
    if facts.phase == "data":
        first = "the main process prepares the data alone and the others wait for it"
        if "alone" not in facts.seen:
            first = "a rank was still preparing data when the others gave up"
        limit = facts.number("ddp_timeout")
        told = f"the {limit} seconds of ddp_timeout" if limit else "the time-out"
        return f"{first}, longer than {told}: slow, not gone, {_moved(facts)}"
    return (
        "the other ranks waited for one that was still busy, most often before the first step: it "
        "prepared data, downloaded, compiled, or had already failed"
    )


_NO_WAY = ("No route to host", "Network is unreachable")  # the network's, nobody was late

FAILURE = Known(
    code="VG517",
    name="explain-slow-start",
    title="A rank came too late to a meeting of the ranks",
    zh="训练开始前某个 rank 过晚（数据预处理或下载太慢），其余 rank 等待超时",
    why=_why,
    do=_do,
    wrong="A longer time-out does not help where the late rank has died.",
    signs=(
        Sign("Socket Timeout", no=("Tried to launch",)),
        Sign("got error: Socket Timeout"),
        Sign("wait timeout after"),
        Sign("Wait timeout"),
        Sign("The client socket has timed out after"),
        Sign("failed to recv, got 0 bytes", also=("TCPStore",), no=("peer",)),
        Sign("Timed out initializing process group"),
        Sign("waiting for clients"),
        Sign("timed out after", also=("clients joined",)),
        Sign("RendezvousTimeoutError"),
        Sign("store->get('", also=("imeout",)),
        Sign("retrieving ncclUniqueId from", where="line", also=("imeout",)),
        Sign("The client socket has timed out after", where="line"),
        Sign("RendezvousConnectionError"),
        Sign("RendezvousConnectionError", where="line"),
        Sign("DistStoreError"),
        Sign("The connection to the C10d store has failed"),
        Sign("RendezvousClosedError"),
        Sign("Timed out initializing process group in store based barrier", where="line"),
        Sign("RendezvousStateError"),
        Sign("The heartbeat has failed"),
        Sign("RendezvousGracefulExitError"),
        Sign("torch/distributed/elastic/rendezvous/", where="raised"),
        Sign("in _create_c10d_store", where="raised"),
        Sign("Getting socket times out", releases="HCCL, EI0006"),
        Sign("Getting socket times out", where="line", releases="HCCL, EI0006"),
        Sign("EI0006"),
        Sign("EI0015", releases="HCCL"),
        Sign("No rank in the communicator can connect to the root node", releases="HCCL"),
        Sign("The client socket has failed to connect to any network address", no=_NO_WAY),
        Sign(
            "The client socket has failed to connect to any network address",
            where="line",
            no=_NO_WAY,
        ),
        Sign("connect() timed out. Original timeout", releases="torch 1.9 to 1.12"),
        Sign("Timeout waiting for key"),
    ),
    examples=(
        Example(
            "torch.distributed.DistBackendError: [2] is setting up NCCL "
            "communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0', but store->get('0') got error: "
            "Socket Timeout",
            "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, 2.1",
        ),
    ),
    evidence="hiyouga/LlamaFactory#2424; row 16.",
    order="hang",
)
