"""Which windows of an optimizer are watched: the first ones, those with new kinds of rows, and one
in so many."""

from __future__ import annotations

import math
from collections.abc import Iterable

EVERY = 1000
"""After the first windows one in so many, unless the setting says otherwise."""
FIRST = 3
KINDS = 20
"""Windows at most that are watched for a kind of row that no watched window had."""


class When:
    """Answers for each window, in their order, whether it is watched.

    Args:
        setting: "off"; "first" for the first windows and new kinds of rows; "every N" (or N) for
            one window in N as well.
        first: how many windows are watched at the beginning.
        kinds: how many at most for new kinds of rows.
    """

    def __init__(self, setting: str | int = "", first: int = FIRST, kinds: int = KINDS) -> None:
        self.every = _every(setting)
        self.off = str(setting).strip().lower() == "off"
        self.first = 0 if self.off else first
        self._known: set[str] = set()
        self._left = 0 if self.off else kinds

    def due(self, window: int) -> bool:
        """Whether ``window`` (from 0) is watched by its number: alike on all ranks."""
        later = bool(self.every) and window > 0 and window % self.every == 0
        return not self.off and (window < self.first or later)

    def after(self, window: int) -> float:
        """The first window behind ``window`` that is watched by its number."""
        if self.off:
            return math.inf
        if window + 1 < self.first:
            return window + 1
        return (window // self.every + 1) * self.every if self.every else math.inf

    def curious(self) -> bool:
        """Whether a new kind of row would still have its window watched."""
        return self._left > 0

    def new(self, kinds: Iterable[str]) -> bool:
        """Whether a window is watched because of the rows that it begins with."""
        if self._left <= 0 or self._known.issuperset(kinds):
            return False
        self._left -= 1
        return True

    def saw(self, kinds: Iterable[str]) -> None:
        """A watched window had these kinds of rows."""
        self._known.update(kinds)

    def ended(self, window: int) -> bool:
        """Whether nothing from ``window`` on can be watched."""
        return not self.every and window >= self.first and not self.curious()


def _every(setting: str | int) -> int:
    """0 for none."""
    text = str(setting).strip().lower().removeprefix("every").strip()
    if text in ("off", "first"):
        return 0
    return max(int(text), 1) if text.isdecimal() else EVERY
