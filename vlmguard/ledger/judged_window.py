"""One window of all ranks, judged station by station."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from vlmguard.ledger.account import STATIONS, Account, Page, Verdict
from vlmguard.runtime.faults import contain


class Judge:
    """Judges the windows of one account, in their order.

    Each station is a module of this package with a function ``judge(pages, account, memory)``:
    ``pages`` by rank, None for a rank that was not heard; ``memory`` is a dict of its own, kept
    from window to window. It returns a `Verdict`.
    """

    def __init__(self, account: Account, stations: Sequence[str] = STATIONS) -> None:
        self.account, self.stations = account, tuple(stations)
        self._memory: dict[str, dict[str, Any]] = {name: {} for name in stations}

    def recall(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        """Put into stations' memories what is known of an earlier part of the run."""
        for name in known.keys() & self._memory.keys():
            self._memory[name].update(known[name])

    def window(self, pages: Sequence[Page | None]) -> list[Verdict]:
        """One verdict a station."""
        return [self._station(name, pages) for name in self.stations]

    def _station(self, name: str, pages: Sequence[Page | None]) -> Verdict:
        heard = [page for page in pages if page is not None]
        unread = next((page["unread"][name] for page in heard if name in page["unread"]), None)
        if unread is not None:
            return Verdict(name, "cannot tell", reason=unread)
        if not any(name in page for page in heard):
            return Verdict(name, "idle")
        found = contain(f"the ledger's {name}", self._judged, name, pages)
        return found or Verdict(name, "cannot tell", reason="a fault of vlmguard's")

    def _judged(self, name: str, pages: Sequence[Page | None]) -> Verdict:
        module = importlib.import_module(f"vlmguard.ledger.stations.{name}")
        verdict: Verdict = module.judge(pages, self.account, self._memory[name])
        return verdict


def unheard(pages: Sequence[Page | None]) -> str:
    """ "rank 3 was not heard"; "" where all were."""
    missing = [str(place) for place, page in enumerate(pages) if page is None]
    if not missing:
        return ""
    if len(missing) == 1:
        return f"rank {missing[0]} was not heard"
    names = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
    return f"ranks {names} were not heard"
