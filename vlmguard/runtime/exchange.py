"""What ranks decide by is exchanged through the rendezvous store, never by a collective.

The store is the one that torchrun's agent keeps (before and after ``init_process_group``), else the
one that ``init_process_group`` made. Without either the answer is None at once: a client for a
store that nobody serves costs seconds and stack traces. Our keys have a prefix of their own, so the
program's use of the store is not touched. Nothing here raises (a store that fails is no store; the
program will say so itself), and nothing waits but `share` and `gather`.

Measured, torch 2.13 on one machine: 1–2 ms when all ranks are there.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import sys
import time
from collections.abc import Iterable
from typing import Any

from vlmguard.runtime import ranks

CONNECT = 1.0
"""Seconds to wait for the agent's store; it is on this machine or on the first node."""
_PAUSE = (0.0005, 0.02)  # seconds between two looks: the first, and at most

_clients: dict[tuple[int, str, int], Any] = {}  # process, host, port → TCPStore, None if unreached


def post(kind: str, number: int, value: object) -> bool:
    """Leave ``value`` (JSON) for the other ranks.

    Args:
        kind: what it is, e.g. ``"digest"``.
        number: of the guarded run in this process, counted alike on all ranks.

    Returns:
        Whether it was left: False without a store, in a dataloader worker, or if the store failed.
    """
    store = _store()
    if store is None:
        return False
    with contextlib.suppress(Exception):
        store.set(_key(kind, number, ranks.rank()), json.dumps(value))
        return True
    return False


def look(kind: str, number: int, world: int | None = None) -> dict[int, Any] | None:
    """Rank → value, of those that have posted by now. None without a store."""
    store = _store()
    if store is None:
        return None
    with contextlib.suppress(Exception):
        return _present(store, kind, number, range(world or ranks.world()), {})
    return None


def share(
    kind: str, number: int, value: object, world: int | None = None, wait: float = 2.0
) -> dict[int, Any] | None:
    """`post`, then wait until all ``world`` ranks have posted, at most ``wait`` seconds.

    Returns:
        Rank → value; fewer than ``world`` entries if not all came; None without a store.
    """
    if not post(kind, number, value):
        return None
    return gather(kind, number, world, wait)


def gather(
    kind: str, number: int, world: int | None = None, wait: float = 2.0
) -> dict[int, Any] | None:
    """Wait until all ``world`` ranks have posted, at most ``wait`` seconds; then as `look`."""
    store = _store()
    if store is None:
        return None
    world = world or ranks.world()
    end = time.monotonic() + wait
    found: dict[int, Any] = {}
    pause = _PAUSE[0]
    with contextlib.suppress(Exception):
        while True:
            left = [rank for rank in range(world) if rank not in found]
            _present(store, kind, number, left, found)
            remaining = end - time.monotonic()
            if len(found) == world or remaining <= 0:
                return found
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, _PAUSE[1])
    return None


def leave(mark: str, number: int) -> bool:
    """Leave a mark that any rank may have left; whether it was left."""
    store = _store()
    if store is None:
        return False
    with contextlib.suppress(Exception):
        store.set(_mark(mark, number), "1")
        return True
    return False


def left(mark: str, number: int) -> bool:
    """Whether a rank has left this mark by now."""
    store = _store()
    with contextlib.suppress(Exception):
        return store is not None and bool(store.check([_mark(mark, number)]))
    return False


def forget(marks: Iterable[str], number: int) -> None:
    """Take marks away that nobody will look for."""
    store = _store()
    for mark in marks if store is not None else ():
        with contextlib.suppress(Exception):
            store.delete_key(_mark(mark, number))


def _present(
    store: Any, kind: str, number: int, wanted: list[int] | range, found: dict[int, Any]
) -> dict[int, Any]:
    """Add what is there to ``found``. `check` first: `get` would wait for a key, and raise."""
    keys = {rank: _key(kind, number, rank) for rank in wanted}
    if len(keys) > 1 and store.check(list(keys.values())):
        ready = list(keys)
    else:
        ready = [rank for rank, key in keys.items() if store.check([key])]
    for rank in ready:
        found[rank] = json.loads(store.get(keys[rank]))
    return found


def _key(kind: str, number: int, rank: int) -> str:
    return _mark(f"{kind}/{rank}", number)


def _mark(name: str, number: int) -> str:
    """Restarts and later trainings must not read what earlier ones left in the same store."""
    run = os.environ.get("TORCHELASTIC_RUN_ID", "")
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f"vlmguard/{run}/{restart}/{ranks.world()}/{number}/{name}"


def _store() -> Any:
    """A store that all ranks reach, or None. The agent's first: it is there before and after
    ``init_process_group``, so that ranks on either side of it meet."""
    if ranks.worker() is not None:
        return None
    found = None
    with contextlib.suppress(Exception):
        found = _agents()
        if found is None and ranks.group() is not None:
            found = sys.modules["torch.distributed.distributed_c10d"]._get_default_store()
    return found


def _agents() -> Any:
    """A client of the store that torchrun's agent serves; one a process."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    dist = sys.modules.get("torch.distributed")
    if not host or not port.isdecimal() or not hasattr(dist, "TCPStore"):
        return None
    place = (os.getpid(), host, int(port))
    if place not in _clients:
        _clients[place] = None  # unless it answers
        _clients[place] = _connect(dist, host, int(port))
    return _clients[place]


def _connect(dist: Any, host: str, port: int) -> Any:
    # A program may have chosen a port of its own, which nobody serves yet: TCPStore would wait for
    # it, and print a stack trace.
    socket.create_connection((host, port), timeout=CONNECT).close()
    return dist.TCPStore(
        host,
        port,
        is_master=False,
        wait_for_workers=False,
        timeout=datetime.timedelta(seconds=CONNECT),
    )
