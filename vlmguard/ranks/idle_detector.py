"""Sees that processes have stopped moving: how a hang on gloo is found before its time limit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

_EVERY = 0.25
"""Seconds between two looks."""


class IdleDetector:
    """For how long some processes have used no processor time while none wanted any.

    Their child processes count as theirs. Reads /proc (Linux). A thread that waits for its turn
    on a busy machine is not still; one that only wakes for a moment is.
    """

    def __init__(self) -> None:
        self._since = self._asked = time.monotonic()
        self._ticks: dict[int, int] = {}
        self._ready: set[str] = set()

    def seconds(self, pids: Iterable[int]) -> float:
        """Seconds without movement, up to now."""
        now = time.monotonic()
        if now - self._asked >= _EVERY:
            self._asked = now
            before = self._ready, self._ticks
            self._look(pids)
            # Ready twice in a row: it could run, but the machine is too busy.
            if self._ticks != before[1] or self._ready & before[0]:
                self._since = now
        return now - self._since

    def _look(self, pids: Iterable[int]) -> None:
        self._ticks, self._ready = {}, set()
        for pid in pids:
            self._ticks[pid] = 0
            for file in _threads(pid):
                try:
                    fields = file.read_text().rpartition(")")[2].split()
                except (OSError, ProcessLookupError):
                    continue
                self._ticks[pid] += int(fields[11]) + int(fields[12])
                if fields[0] in "RD":
                    self._ready.add(file.parent.name)


def _threads(pid: int) -> Iterable[Path]:
    """The stat file of every thread of a process and of its descendants."""
    tasks = Path(f"/proc/{pid}/task")
    yield from tasks.glob("*/stat")
    for file in tasks.glob("*/children"):
        with contextlib.suppress(OSError, ProcessLookupError):
            for child in file.read_text().split():
                yield from _threads(int(child))
