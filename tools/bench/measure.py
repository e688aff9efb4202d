"""Pairs by turns, medians with their interval, and rows for the page."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Spent:
    """What a command took: processor and wall seconds, and the most memory in bytes."""

    cpu: float
    wall: float
    peak: int = 0


@dataclass(frozen=True)
class Median:
    """A median and the 95 % interval around it."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One line of the page.

    Attributes:
        what: in words, with what it is held against.
        unit: "ms", "µs", "×" or "MB".
        cpu: the judged figure, in processor time (or memory).
        wall: the same in wall time, which other work on the machine stretches.
        number: pairs, or whatever the interval comes from.
        bar: at most this; None where nothing was promised.
    """

    what: str
    unit: str
    cpu: Median
    number: int
    wall: Median | None = None
    bar: float | None = None

    def data(self) -> dict[str, Any]:
        return {**asdict(self), "met": self._met()}

    def _met(self) -> bool | None:
        """None too where the noise holds the bar: a median above it then says nothing."""
        if self.bar is None or self.cpu.low <= self.bar < self.cpu.median:
            return None
        return self.cpu.median <= self.bar


def median(values: Sequence[float]) -> Median:
    """The median with its interval by order statistics: no assumption on the distribution.

    The k-th and the k-th last of n values hold the median unless fewer than k lie on one side of
    it. k is the largest for which a binomial (n, 1/2) stays below it in at most 2.5 % of cases.
    """
    ordered = sorted(values)
    n = len(ordered)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    below, k = 0.0, 0
    while k < n // 2:
        below += math.comb(n, k) / 2**n
        if below > 0.025:
            break
        k += 1
    first = max(k - 1, 0)
    return Median(middle, ordered[first], ordered[n - 1 - first])


def command(words: Sequence[str], variables: dict[str, str]) -> Spent:
    """Run it to its end; raises `RuntimeError` if it fails."""
    start = time.perf_counter()
    child = subprocess.Popen(
        words, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"exit {child.returncode}: {' '.join(words)}")
    return Spent(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * 1024)


def called(call: Callable[[], Any]) -> Spent:
    """Call it in this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Spent(time.process_time() - cpu, time.perf_counter() - wall)


def number(quick: bool, few: int, many: int) -> int:
    """How many pairs: ``few`` to try the machinery, else ``many`` or what ``--pairs`` allows."""
    return few if quick else min(many, int(os.environ.get("BENCH_PAIRS", many)))


Side = Callable[[], Spent]


def pairs(with_it: Side, without: Side, number: int) -> list[tuple[Spent, Spent]]:
    """So many pairs, each side first by turns, after one that is not counted."""
    with_it(), without()
    found = []
    for turn in range(number):
        if turn % 2:
            b, a = without(), with_it()
        else:
            a, b = with_it(), without()
        found.append((a, b))
    return found


def more(what: str, found: Sequence[tuple[Spent, Spent]], unit: str, bar: float | None) -> Row:
    """Difference of the pairs, in "ms" or "µs"."""
    times = {"ms": 1e3, "µs": 1e6}[unit]
    cpu = median([(a.cpu - b.cpu) * times for a, b in found])
    wall = median([(a.wall - b.wall) * times for a, b in found])
    return Row(what, unit, cpu, len(found), wall, bar)


def ratio(what: str, found: Sequence[tuple[Spent, Spent]], bar: float | None = None) -> Row:
    """Quotient of the pairs."""
    cpu = median([a.cpu / b.cpu for a, b in found])
    wall = median([a.wall / b.wall for a, b in found])
    return Row(what, "×", cpu, len(found), wall, bar)
