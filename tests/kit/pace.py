"""A clock for processes that stands still while a busy machine keeps them waiting."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path


class Pace:
    """Seconds that some processes had: all of them while they wanted no processor (they sleep, or
    wait for each other), else as many as they got.

    A hang is as long on it as on the wall; a run that a busy machine starves hardly moves it.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._asked = time.monotonic()
        self._ticks: dict[str, int] = {}

    def look(self, pids: Iterable[int]) -> float:
        """The clock, now; to be asked every tenth of a second or so."""
        now = time.monotonic()
        passed, self._asked = now - self._asked, now
        before, waits = self._ticks, self._read(pids)
        used = sum(max(n - before.get(thread, 0), 0) for thread, n in self._ticks.items()) / 100
        self.seconds += min(used, passed) if waits else passed
        return self.seconds

    def _read(self, pids: Iterable[int]) -> bool:
        """Note what each thread has used, in ticks of 10 ms; whether one runs or is about to."""
        self._ticks, waits = {}, False
        for pid in pids:
            for thread in _threads(pid):
                try:
                    told = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
                except OSError:
                    continue
                fields = told.rpartition(")")[2].split()
                self._ticks[thread] = int(fields[11]) + int(fields[12])
                waits = waits or fields[0] in "RD"
        return waits


def _threads(pid: int) -> list[str]:
    """A process may end at any moment, and be looked for once more."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
