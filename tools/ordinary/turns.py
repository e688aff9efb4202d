"""Long runs, judged for what the guard costs: the one with it and the one without go by turns on
one core, a step each, so that a busy machine is as slow for both. Judged is the process's processor
time, because other work on the machine makes wall time say nothing; wall time stands beside it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EACH = 1
"""Steps of a turn."""
FIRST, BOUND = 20, 1.02
"""The step from which on it is judged, and what it may cost."""
_OTHER = {"off": "on", "on": "off"}


class Clock:
    """Seconds of each step of one of the two, by the wall's clock and the processor's; waits for
    its turn in between."""

    def __init__(self, folder: str, guard: str) -> None:
        self.first = guard == "off"
        self.own = os.open(Path(folder) / guard, os.O_RDWR)
        self.others = os.open(Path(folder) / _OTHER[guard], os.O_RDWR)
        self.seconds: list[float] = []
        self.processor: list[float] = []
        self.begun: tuple[float, float] | None = None
        # With guard off in both, steps by turns differ by up to 2 % on one core, by 20 % on two.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    def tick(self, *_: Any) -> None:
        """The end of a step."""
        now = time.perf_counter(), time.process_time()
        if self.begun is not None:
            self.seconds.append(now[0] - self.begun[0])
            self.processor.append(now[1] - self.begun[1])
        if self.begun is None:  # one process begins, the other waits
            if not self.first:
                os.read(self.own, 1)
        elif len(self.seconds) % EACH == 0:
            os.write(self.others, b"1")
            os.read(self.own, 1)
        self.begun = time.perf_counter(), time.process_time()

    def end(self) -> dict[str, list[float]]:
        """The other one need not wait any more."""
        os.write(self.others, b"1" * 1000)
        return {"seconds": self.seconds, "processor": self.processor}


def made(folder: Path) -> None:
    """The two pipes by which the turn is handed over; the run without the guard begins."""
    folder.mkdir(parents=True, exist_ok=True)
    for guard in _OTHER:
        os.mkfifo(folder / guard)


def clock() -> Clock | None:
    """This process's clock, if the run is a long one."""
    told = os.environ.get("ORDINARY_TURNS")
    return Clock(*told.rsplit(":", 1)) if told else None


def ratio(off: Sequence[float], on: Sequence[float]) -> float:
    """What a step with the guard takes of one without: the median of the ratios of turns that
    follow each other."""
    pairs = zip(_turns(off), _turns(on), strict=False)
    return round(statistics.median(after / before for before, after in pairs), 4)


def _turns(seconds: Sequence[float]) -> list[float]:
    """The median step of each turn, from step `FIRST` on."""
    late = range(FIRST, len(seconds) - EACH + 1, EACH)
    return [statistics.median(seconds[first : first + EACH]) for first in late]
