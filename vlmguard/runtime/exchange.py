"""What ranks decide by is exchanged through the rendezvous store, never by a collective.

The store is the one that torchrun's agent keeps (before and after ``init_process_group``), else the
one that ``init_process_group`` made. Without either the answer is None at once: a client for a
store that nobody serves costs seconds and stack traces. Our keys have a prefix of their own, so the
program's use of the store is not touched. Nothing here raises (a store that fails is no store; the
program will say so itself), and nothing waits but `decide` and `roll_call`.

Once there is a process group, its own client of the agent's store is used. Before, a client of ours
is opened and closed again (`let_go`), and only where the server may open one more for each rank: of
700 ranks under ``ulimit -n 1024`` 390 were refused, and torch printed a stack trace in each.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vlmguard.runtime import ranks
from vlmguard.runtime.ballot import UNKNOWN, Ballot, Decision, until
from vlmguard.runtime.ballot import decide as _decide

if TYPE_CHECKING:
    from vlmguard.runtime.mailbox import Mailbox

CONNECT = 1.0
"""Seconds to wait for the agent's store; it is on this machine or on the first node."""
ALONE = "VLMGUARD_ALONE"
"""Set to 1, this process is one rank of many that are not there (`vlmguard.ranks.alone`): they are
taken to tell what it tells, and nobody is waited for."""
_OTHER_FILES = 64  # what the agent has open beside its ranks' clients: pipes, logs, sockets
_PART = 1 << 32  # a roll call counts the ranks above this, and sums up their numbers below it

_clients: dict[tuple[int, str, int], Any] = {}  # process, host, port → TCPStore, None if unreached


def decide(number: int, world: int, value: object, wait: float) -> Decision | None:
    """Tell all ranks what this one decides by, and hear the others.

    Args:
        number: of the guarded run in this process, counted alike on all ranks.
        world: how many ranks there are.
        value: JSON.
        wait: seconds at most.

    Returns:
        One decision, the same on all ranks: unknown if not all came in time or if the store fails;
        None where there is no store, on any rank.
    """
    if _alone():
        return Decision(True, world, ((ranks.rank(), value),), token="alone")
    found = ballot("start", number)
    if found is None:
        return UNKNOWN if _agents_place() is not None and ranks.worker() is None else None
    with contextlib.suppress(Exception):
        return _decide(found, ranks.rank(), world, value, wait)
    return UNKNOWN


def ballot(name: str, number: int) -> Ballot | None:
    """A question of the guarded run ``number``; None without a store. Its methods may raise."""
    store = _store()
    return Ballot(store, _mark(name, number)) if store is not None else None


def mailbox(name: str, number: int) -> Mailbox | None:
    """Where ranks leave values for one of them; None without a store, or alone."""
    from vlmguard.runtime.mailbox import Mailbox

    store = None if _alone() else _store()
    return Mailbox(store, _mark(name, number)) if store is not None else None


def roll_call(name: str, number: int, world: int, wait: float) -> list[int | None] | None:
    """Wait until all ``world`` ranks have come here, ``wait`` seconds at most.

    Returns:
        Those that did not come, by number if it is one, else a None for each; None without a store.
    """
    if _alone():
        return []
    found = ballot(name, number)
    if found is None:
        return None
    with contextlib.suppress(Exception):
        found.count("came", _PART + ranks.rank())
        until(lambda: found.count("came", 0) // _PART >= world, wait, world)
        came, numbers = divmod(found.count("came", 0), _PART)
        absent = max(world - came, 0)
        return [sum(range(world)) - numbers] if absent == 1 else [None] * absent
    return None


def let_go() -> None:
    """Close what was opened for us."""
    for place in [place for place, client in list(_clients.items()) if client is not None]:
        _clients.pop(place, None)  # another thread may do the same


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


def _alone() -> bool:
    return os.environ.get(ALONE) == "1"


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
    with contextlib.suppress(Exception):
        return _agents() or _groups()
    return None


def _groups() -> Any:
    """The store of the process group, None before there is one."""
    if ranks.group() is None:
        return None
    return sys.modules["torch.distributed.distributed_c10d"]._get_default_store()


def _agents() -> Any:
    """A client of the store that torchrun's agent serves: the process group's own, else ours."""
    place = _agents_place()
    if place is None:
        return None
    theirs = _client_of(_groups(), *place)
    if theirs is not None:
        return theirs
    mine = (os.getpid(), *place)
    if mine not in _clients:
        _clients[mine] = None  # until it answers
        if _crowded():
            return None
        with contextlib.suppress(Exception):
            _clients[mine] = _connect(*place)
    return _clients[mine]


def _crowded() -> bool:
    """Whether two clients for each rank may be more files than a process may open. The limit is
    this process's: the server's is as a rule the same."""
    with contextlib.suppress(Exception):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return limit != resource.RLIM_INFINITY and 2 * ranks.world() + _OTHER_FILES > limit
    return False


def _agents_place() -> tuple[str, int] | None:
    """Host and port of the agent's store, as the agent told them."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    known = hasattr(sys.modules.get("torch.distributed"), "TCPStore")
    return (host, int(port)) if known and host and port.isdecimal() else None


def _client_of(store: Any, host: str, port: int) -> Any:
    """What lies under the prefixes of ``store``, if it is a client of the server at that place."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    place = getattr(store, "host", None), getattr(store, "port", None)
    return store if place == (host, port) else None


def _connect(host: str, port: int) -> Any:
    # A program may have chosen a port on which nothing listens yet. TCPStore would wait for it, and
    # print a stack trace.
    socket.create_connection((host, port), timeout=CONNECT).close()
    return sys.modules["torch.distributed"].TCPStore(
        host,
        port,
        is_master=False,
        wait_for_workers=False,
        timeout=datetime.timedelta(seconds=CONNECT),
    )
