"""Numbers in words, the same in the line, the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vlmguard.ledger.report import figures


def count(value: Any) -> str:
    """1,234; 45.6M; 7.62B; "" for no number."""
    found = figures.number(value)
    if found is None:
        return ""
    for size, unit in ((1e9, "B"), (1e6, "M")):
        if abs(found) >= size:
            return f"{found / size:.3g}{unit}"
    return f"{found:,.0f}"


def small(value: Any) -> str:
    """A norm or a weight, with three digits; "" for no number."""
    found = figures.number(value)
    return "" if found is None else _rate(found)


def rates(value: Any) -> str:
    """One learning rate, or the least and the largest of several; "" for none."""
    read = [figures.number(each) for each in figures.sequence(value) or (value,)]
    known = sorted({each for each in read if each is not None})
    return "–".join(_rate(each) for each in known[:1] + known[1:][-1:])


def _rate(value: float) -> str:
    """2e-6, as people write it."""
    return f"{value:.3g}".replace("e-0", "e-")


def steps(numbers: Sequence[int]) -> str:
    """step 3; steps 1 to 3; steps 1, 2 and 1000."""
    found = sorted(set(numbers))
    if len(found) < 2:
        return f"step {found[0]}" if found else "the first steps"
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return f"steps {found[0]} to {found[-1]}"
    return f"steps {listed(list(map(str, found)))}"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def printable(text: Any) -> str:
    """A row's text without what a terminal would obey; ends of lines are shown."""
    return "".join(
        "↵" if each == "\n" else each if each.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for each in str(text)
    )
