"""How ranks agree through a store in O(1) messages a rank, with one decision for all.

Each rank adds one to a counter of its value's digest (who is the first leaves the value), then to
``here``. The last to arrive publishes the decision by ``compare_set``; who has waited long enough
publishes "unknown" in the same way. The first write holds, and everybody adopts it. No rank is
special. A count beyond the number of ranks means keys of an earlier membership: unknown, unless
the others, who could not see it, have decided since this process began; then theirs holds here too.

Any of torch's stores will do. Nothing here blocks: a key is read once ``check`` has found it, since
a blocking ``wait`` prints torch's warnings and holds the client's lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PAUSE = (0.01, 1.2)  # seconds between two looks: the first, doubled up to the second
_SERVED = 50e-6  # seconds that the server needs for one rank; a first pause gives it time for all
_APART = 2.0  # seconds by which the clocks of two nodes may differ
_MOST = 32
"""Different values that are read: ranks that differ in more ways are not told apart."""


@dataclass(frozen=True)
class Decision:
    """What all ranks act on.

    Attributes:
        known: whether all ranks were heard.
        heard: how many were, when it was published.
        values: a rank and its value, once for each different value.
        token: names this decision by who published it, and when; "" if none was published.
    """

    known: bool
    heard: int
    values: tuple[tuple[int, Any], ...] = ()
    token: str = ""


UNKNOWN = Decision(False, 0)


class Ballot:
    """One question to all ranks.

    Args:
        store: one of torch's, or whatever has its ``add``, ``set``, ``check``, ``get`` and
            ``compare_set``.
        place: prefix of its keys.
    """

    def __init__(self, store: Any, place: str) -> None:
        self.store, self.place = store, place

    def cast(self, rank: int, value: object) -> int:
        """Leave ``value`` (JSON) and be counted; how many were counted by then."""
        self.lean(rank, value)
        return self.count("here", 1)

    def lean(self, rank: int, value: object) -> None:
        """Leave ``value`` without being counted: one message where a rank has left it before."""
        if self.count(_digest(value), 1) == 1:
            place = self.count("values", 1)
            self.store.set(self._key(f"value/{place}"), json.dumps([rank, value]))

    def replace(self, rank: int, old: object, new: object) -> None:
        """Change one's mind."""
        self.lean(rank, new)
        self.count(_digest(old), -1)

    def different(self) -> int:
        """How many different values were left by now."""
        return self.count("values", 0)

    def holders(self, value: object) -> int:
        """How many ranks hold ``value`` by now."""
        return self.count(_digest(value), 0)

    def values(self) -> tuple[tuple[int, Any], ...]:
        """A rank and its value, for each different value that was left by now."""
        number = min(self.different(), _MOST)
        keys = [self._key(f"value/{place}") for place in range(1, number + 1)]
        left = [json.loads(self.store.get(key)) for key in keys if self.store.check([key])]
        return tuple((int(rank), value) for rank, value in left)

    def count(self, name: str, more: int) -> int:
        """A counter, after ``more`` was added."""
        return int(self.store.add(self._key(name), more))

    def decided(self) -> bool:
        """Whether a decision was published."""
        return bool(self.store.check([self._key("decision")]))

    def read(self) -> Decision:
        """The decision that was published."""
        return _read(self.store.get(self._key("decision")))

    def publish(self, rank: int, world: int) -> Decision:
        """Publish what is known by now, and return what holds: this or an earlier one."""
        heard = self.count("here", 0)
        values = self.values()
        return self.settle(rank, heard == world and len(values) < _MOST, heard, values)

    def settle(
        self, rank: int, known: bool, heard: int, values: tuple[tuple[int, Any], ...] = ()
    ) -> Decision:
        """Publish a decision, and return what holds: this or an earlier one."""
        token = f"{rank}.{os.getpid()}.{time.time_ns()}"
        mine = {"known": known, "heard": heard, "values": values, "token": token}
        return _read(self.store.compare_set(self._key("decision"), "", json.dumps(mine)))

    def _key(self, name: str) -> str:
        return f"{self.place}/{name}"


def meet(ballot: Ballot, rank: int, world: int, wait: float) -> bool:
    """Whether all ``world`` ranks have come here: one answer for all, in at most four messages a
    rank if they come together. A rank that comes alone asks for ``wait`` seconds at most.

    Raises:
        Whatever a store raises.
    """
    came = ballot.count("here", 1)
    if came < world and until(ballot.decided, wait, world):
        return ballot.read().known
    found = ballot.settle(rank, came == world, came)
    return found.known and (came <= world or _own(found))


def decide(ballot: Ballot, rank: int, world: int, value: object, wait: float) -> Decision:
    """Ask all ``world`` ranks, for ``wait`` seconds at most.

    Returns:
        The one decision that all ranks get.

    Raises:
        Whatever a store raises.
    """
    came = ballot.cast(rank, value)
    if came > world:  # marks of an earlier membership are there: end the others' wait
        found = ballot.publish(rank, world)
        return found if _own(found) else Decision(False, came)
    if came < world and until(ballot.decided, wait, world):
        return ballot.read()
    return ballot.publish(rank, world)


def until(done: Callable[[], bool], wait: float, world: int) -> bool:
    """Ask until it is ``done``, with pauses that double, for ``wait`` seconds at most. ``world``
    ranks ask: the more, the longer is the first pause."""
    end, pause = time.monotonic() + wait, max(_PAUSE[0], world * _SERVED)
    while not done():
        left = end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(2 * pause, _PAUSE[1])
    return True


def _own(found: Decision) -> bool:
    """Whether it was published since this process began: not by an earlier membership."""
    return _published(found) > _began() + _APART


def _published(decision: Decision) -> float:
    """When it was, in seconds since the epoch by the clock of who published it."""
    return int(decision.token.rpartition(".")[2]) * 1e-9


def _began() -> float:
    """When this process did, in seconds since the epoch; now where Linux' /proc is not there."""
    with contextlib.suppress(Exception):
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        alive = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - alive
    return time.time()


def _read(text: str | bytes) -> Decision:
    found = json.loads(text)
    values = tuple((int(rank), value) for rank, value in found["values"])
    return Decision(found["known"], found["heard"], values, found["token"])


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return "holds/" + hashlib.sha256(text.encode()).hexdigest()[:16]
