"""A figure that is measured until its noise allows a word on it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

import pytest


def at_most(limit: float, unit: str, pairs: Callable[[], Iterable[float]], rounds: int = 6) -> None:
    """Fail where the median of what ``pairs`` returns, round after round, is surely above
    ``limit``; skip, with the figure, where after ``rounds`` nothing can be said.

    pairs: differences of interleaved pairs, the same number each time; seven or more.
    """
    more: list[float] = []
    said = ""
    for _ in range(rounds):
        more += pairs()
        noise = 1.25 * statistics.stdev(more) / len(more) ** 0.5  # standard error of the median
        cost = statistics.median(more)
        said = f"{cost:.2f} ± {noise:.2f} {unit} over {len(more)} pairs"
        assert cost - 3 * noise < limit, said
        if noise < limit / 2:
            return
    pytest.skip(f"nothing can be said on so busy a machine: {said}")
