"""One rank meets a new kind of row, and all ranks watch the same later window for it."""

from __future__ import annotations

from collections.abc import Callable

from vlmguard.runtime.mailbox import Mailbox

LAST = 1000
"""Windows after which nobody looks for wishes any more."""
_EVERY, _SERVED = 4, 16
"""A rank looks in every fourth window, one of many ranks less often: the store is served alone."""
_LATER = 2


class Wishes:
    """Windows that ranks ask each other to watch. Nobody waits: a rank that hears of one too late
    does not watch it, and the others do without its page.

    Args:
        mailbox: None without a store.
        world: how many ranks there are.
    """

    def __init__(self, mailbox: Callable[[], Mailbox | None], world: int) -> None:
        self._make, self._world = mailbox, world
        self._every = max(_EVERY, world // _SERVED)
        self._heard: set[int] = set()
        self._number = self._until = 0

    def waiting(self, window: int) -> bool:
        """Whether a window that was wished for is still to come."""
        return window <= self._until

    def wish(self, window: int) -> None:
        """This rank would have had ``window`` watched: one message, two if it is the first."""
        mailbox = self._make() if window < LAST else None
        later = self._until = (window // self._every + 2) * self._every + _LATER
        if mailbox is not None and mailbox.first(f"wish/{self._number}/by"):
            mailbox.leave(f"wish/{self._number}", str(later).encode())

    def look(self, window: int) -> None:
        """``window`` is over: whether somebody has wished, now and then."""
        if self._world < 2 or window % self._every or window >= LAST:
            return
        mailbox, name = self._make(), f"wish/{self._number}"
        if mailbox is not None and mailbox.there([name]):
            self._number += 1
            found = mailbox.read(name)
            if found and found.isdigit():
                self._heard.add(int(found))
                self._until = max(self._until, int(found))

    def due(self, window: int) -> bool:
        """Whether ``window`` is to be watched because of a wish."""
        return window in self._heard
