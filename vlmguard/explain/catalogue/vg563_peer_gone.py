"""Another rank is gone."""

from __future__ import annotations

from vlmguard.explain.catalogue import pods_steps
from vlmguard.explain.catalogue import ranks_steps as ranks
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_RUNTIMES = (
    Do(
        "tail -n 40 /tmp/ray/session_latest/logs/worker-*.err; dmesg -T | grep -i -E 'killed "
        "process|oom' | tail -5, on the node of the actor: what ended it",
        "none",
        when=("ActorDied", "RayActorError", "ray.exceptions"),
    ),
    Do(
        "horovodrun --output-filename LOGS … (the same command), then vlmguard explain "
        "LOGS: the rank that raised the exception says which",
        "none",
        when=("Horovod",),
        kind="each",
    ),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    """The log of whoever ended first, where it exists; else what ended a process without a word."""
    if any(text in facts.message for do in _RUNTIMES for text in do.when):
        return (*_RUNTIMES, *ranks.late(facts), *ranks.logs(facts))
    live = Do("all of them alive to the end: the network is at fault: VG536", "none")
    first = pods_steps.early(facts)
    return (*first, *ranks.others(facts), *ranks.late(facts), *ranks.logs(facts), live)


FAILURE = Known(
    code="VG563",
    name="explain-peer-gone",
    title="Another rank is gone: this one only lost its connection",
    zh="另一个 rank 先行退出，本 rank 只是失去连接",
    why="this rank waited for another that had ended; why that one "
    "ended is in its own log, which is not among these lines",
    do=_do,
    wrong="Nothing here says that the ranks had different inputs.",
    signs=(
        Sign("Connection closed by peer"),
        Sign("Connection closed by remote peer"),
        Sign("ncclRemoteError"),
        Sign("Connection reset by peer"),
        Sign("Broken pipe"),
        Sign("recvValue failed"),
        Sign("sendBytes failed"),
        Sign("NCCL communicator was aborted"),
        Sign("Connection was likely closed"),
        Sign("Software caused connection abort"),
        Sign(
            "ncclRemoteError: A call failed possibly due to a network "
            "error or a remote process exiting"
        ),
        Sign("DistNetworkError"),
        Sign("The process group has been aborted"),
        Sign("NCCL Error 6: ncclRemoteError"),
        Sign("failed to recv, got 0 bytes"),
        Sign("remote process exiting"),
        Sign("remote process exited or there was a network error"),
        Sign("following async exception: NCCL error: remote process exited", where="line"),
        Sign("terminated by peer"),
        Sign("Socket closed"),
        Sign("Read error [127.0.0.1]"),
        Sign("Aborted due to"),
        Sign("processing_group_aborted"),
        Sign("Connection reset by peer", where="line"),
        Sign("Connection closed by peer", where="line"),
        Sign("TCPStore server has shut down too early", where="line"),
        Sign('failed to check the "should dump" flag'),
        Sign("Horovod has been shut down"),
        Sign("Horovod has been shut down", where="line"),
        Sign("The actor died unexpectedly before finishing", releases="Ray"),
        Sign("actor is dead because its worker process has died", releases="Ray"),
        Sign("actor is dead because its worker process has died", where="line", releases="Ray"),
        Sign("The worker died unexpectedly while executing", releases="Ray"),
    ),
    examples=(
        Example(
            "RuntimeError: "
            "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] "
            "Connection closed by peer [127.0.0.1]:4242",
            "made by causing it (names and numbers changed), torch 2.13.0, two gloo ranks",
        ),
        Example(
            "torch.distributed.DistNetworkError: Failed to recv, got 0 "
            "bytes. Connection was likely closed. Did the remote server "
            "shutdown or crash?",
            "torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp, 2.4",
        ),
    ),
    evidence="gloo's and torch's own messages.",
    order="peer",
    narrow=-2,
)
