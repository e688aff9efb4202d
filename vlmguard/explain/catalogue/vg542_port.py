"""The port for the meeting of the ranks is taken."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

_STEPS = (
    Do(
        "ss -ltnp 'sport = :{port}': who listens there; end it if it is left from an earlier "
        "run of yours",
        "none",
        kind="who",
    ),
    Do(
        "ss -ltnp | grep 29500 (or your MASTER_PORT): who listens there; end it if it is left "
        "from an earlier run of yours",
        "none",
        kind="who",
    ),
    Do("other_port", "none; the same one on every node", (("otherport", "29501"),)),
)
_FREE = Do("torchrun --standalone on one machine: it takes a free port", "none")


def _do(facts: Facts) -> tuple[Do, ...]:
    own = facts.said.get("launcher") in ("deepspeed", "accelerate")
    return _STEPS if own else (*_STEPS, _FREE)


FAILURE = Known(
    code="VG542",
    name="explain-port",
    title="The port on which the ranks meet is taken",
    zh="主进程端口已被占用",
    why="another process, often an earlier run that is still alive or "
    "a second run on the same machine, listens on MASTER_PORT",
    do=_do,
    wrong="Ending every python process on a shared machine ends other people's runs.",
    signs=(
        Sign("Address already in use"),
        Sign("EADDRINUSE"),
        Sign("address already in use"),
        Sign("errno: 98"),
        Sign("failed to listen on any local network address"),
        Sign("failed to listen on any local network address", where="line"),
        Sign("EADDRINUSE, message: address already in use", where="line"),
        Sign("another process is utilizing it"),
        Sign("port is already in use"),
        Sign("Port is already in use"),
        Sign("EJ0003", releases="HCCL"),
        Sign("Failed to bind the IP port", releases="HCCL"),
        Sign("[Errno 98]"),
        Sign("[Errno 48] ", releases="macOS"),
        Sign("WinError 10048", releases="Windows"),
    ),
    examples=(
        Example(
            "torch.distributed.DistNetworkError: The server socket has "
            "failed to listen on any local network address. port: 29500, "
            "useIpv6: false, code: -98, name: EADDRINUSE, message: address "
            "already in use",
            "made by causing it, torch 2.13.0",
        ),
    ),
    evidence="torch's own message.",
    narrow=3,
)
