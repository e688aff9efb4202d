"""Pages of one window from all ranks to the one that judges, through the rendezvous store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vlmguard.ledger.account import Page
from vlmguard.ledger.between_ranks import packed
from vlmguard.ledger.between_ranks.window_requests import Wishes
from vlmguard.runtime import exchange
from vlmguard.runtime.ballot import Ballot, meet
from vlmguard.runtime.mailbox import Mailbox

LOOKS = (0, 1, 2, 5, 16)
"""Steps after its own at which the judging rank looks for the others' pages. After the last one it
judges without those that are missing."""
MOST = 32 << 20
"""Bytes of one window's pages, over all ranks, before they are compressed."""
LARGEST = 4 << 20
"""Bytes of one page: the store takes no value above 8 MB."""
WAIT = 2.0
"""Seconds that the judging rank waits at the end of a run, if pages are still to come."""
MEET = 5.0
"""Seconds that ranks wait for each other before a collective."""
Pages = list["Page | None"]


@dataclass
class _Open:
    """A window whose pages are not all there."""

    window: int
    page: Page
    steps: int = 0


class Gather:
    """The judging rank is the first; the others only leave their pages.

    Args:
        mailbox: None without a store: then only the first rank's own page is known.
        place: this rank's place among those that take part, from 0.
        world: how many take part.

    Attributes:
        wishes: windows that one of them asks all to watch.
    """

    def __init__(self, mailbox: Callable[[], Mailbox | None], place: int, world: int) -> None:
        self._make, self._made = mailbox, False
        self._mailbox: Mailbox | None = None
        self.place, self.world = place, world
        self._open: list[_Open] = []
        self.wishes = Wishes(self._box, world)
        self._meetings, self._apart = 0, False

    def leave(self, window: int, page: Page) -> None:
        """This rank's page of a window."""
        page = self._fitting(page)
        if self.place:
            if (mailbox := self._box()) is not None:
                mailbox.leave(_name(window, self.place), packed.pack(page))
        else:
            self._open.append(_Open(window, packed.plain(page)))

    def _fitting(self, page: Page) -> Page:
        most = min(MOST // self.world, LARGEST)
        size = packed.size(page) if self.world > 1 else 0
        return packed.thin(page, -(-size // most)) if size > most else page

    def idle(self) -> bool:
        """Whether no page of another rank is waited for."""
        return not self._open

    def agree(self, window: int, wait: float = MEET) -> bool:
        """Whether all ranks have come here in ``window``: one answer for all of them. A rank may be
        missing (another setting, a fault of ours), and a collective would wait for it without end.
        After one "no" nobody is waited for again."""
        if self.world == 1:
            return True
        mailbox, self._meetings = self._box(), self._meetings + 1
        if mailbox is not None and not self._apart:
            ballot = Ballot(mailbox.store, f"{mailbox.place}/agree/{window}.{self._meetings}")
            with contextlib.suppress(Exception):
                if meet(ballot, self.place, self.world, wait):
                    return True
        self._apart = True
        return False

    def step(self) -> Iterator[tuple[int, Pages]]:
        """A step is over: the windows that are complete now, or will not be."""
        for each in list(self._open):
            if each.steps in LOOKS and self._there(each.window):
                yield self._taken(each)
            elif each.steps >= LOOKS[-1] or self._box() is None:
                yield self._taken_apart(each)
            each.steps += 1

    def rest(self, wait: float = WAIT) -> Iterator[tuple[int, Pages]]:
        """The run ends: what is still open, after ``wait`` seconds at most."""
        end, pause = time.monotonic() + wait, 0.02
        while self._open:
            each = self._open[0]
            if self._there(each.window):
                yield self._taken(each)
            elif time.monotonic() >= end or self._box() is None:
                yield self._taken_apart(each)
            else:
                time.sleep(max(min(pause, end - time.monotonic()), 0.001))
                pause *= 1.6

    def _there(self, window: int) -> bool:
        if self.world == 1:
            return True
        mailbox = self._box()
        return mailbox is not None and mailbox.there(self._names(window))

    def _names(self, window: int) -> list[str]:
        return [_name(window, place) for place in range(1, self.world)]

    def _taken(self, each: _Open) -> tuple[int, Pages]:
        self._open.remove(each)
        return each.window, [each.page, *self._read(self._names(each.window))]

    def _taken_apart(self, each: _Open) -> tuple[int, Pages]:
        """Not all were heard: of a few ranks, those that were."""
        self._open.remove(each)
        names, mailbox = self._names(each.window), self._box()
        some = mailbox if self.world <= _FEW else None
        heard = [name for name in names if some is not None and some.there([name])]
        pages = dict(zip(heard, self._read(heard), strict=True))
        return each.window, [each.page, *(pages.get(name) for name in names)]

    def _read(self, names: list[str]) -> Pages:
        mailbox = self._box() if names else None
        if mailbox is None:
            return [None] * len(names)
        return [packed.unpack(data) if data else None for data in mailbox.take(names)]

    def _box(self) -> Mailbox | None:
        if not self._made:
            self._made, self._mailbox = True, self._make()
        return self._mailbox

    def close(self) -> None:
        """Nothing is sent or taken any more: no connection is kept."""
        self._made, self._mailbox = True, None
        exchange.let_go()


_FEW = 64
"""Ranks up to which each is asked for by itself, once, where not all were heard."""


def _name(window: int, place: int) -> str:
    return f"{window}/{place}"
