"""What terminal and page say alike: the verdict, the cells of the table of towers, the rows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlmguard.core.findings import cut
from vlmguard.ledger.account import STATIONS
from vlmguard.ledger.report import figures, formatted
from vlmguard.ledger.report.figures import Record

COLUMNS = ("tower", "size", "trained", "reached", "moved", "gradient", "update", "lr")
MEANT = (
    "size, trained: parameters; reached: trainable tensors that got a gradient; moved: those that "
    "changed; gradient, update: norms; lr: learning rate; –: not read"
)
ROWS = 8
_REPEATS = 4
_UNREAD = "–"
_ELSEWHERE = ("towers", "norms", "trained", "missed", "rows", "groups", "rates",
              "digest")  # fmt: skip
_LONG = 120


@dataclass(frozen=True)
class Row:
    """A row of data: its title, and its pieces with their weight in the loss; None for what is no
    target, True for a target whose weight was not read."""

    title: str
    pieces: tuple[tuple[str, float | None], ...]


def verdict(records: Sequence[Record]) -> str:
    """One sentence."""
    states = {name: figures.over_all(records, name)[0] for name in STATIONS}
    steps = formatted.steps(figures.steps(records))
    steps = steps if len(records) < 8 else f"{len(records)} steps"
    wrong = [name for name, state in states.items() if state == "differs"]
    if wrong:
        since = next(r for r in records if any(figures.state(r, n) == "differs" for n in wrong))
        first = formatted.steps(figures.steps([since]))
        return f"Does not balance: {formatted.listed(wrong)} (first at {first})"
    counts = Counter(states.values())
    read, end = counts["balances"], "s" if len(records) == 1 else ""
    if not read:
        return f"Cannot tell whether {steps} balance{end}"
    some = f" at {read} of {read + counts['cannot tell']} stations" if counts["cannot tell"] else ""
    return f"{steps[0].upper()}{steps[1:]} balance{end}{some}"


def over(records: Sequence[Record]) -> str:
    """Ranks, strategy, target tokens, kinds of rows."""
    last = records[-1]
    ranks = int(figures.number(last.get("ranks")) or 1)
    kinds = sorted({str(kind) for r in records for kind in figures.sequence(r.get("kinds"))})
    targets = formatted.count(figures.targets(records))
    parts = [
        f"{ranks} rank{'' if ranks == 1 else 's'}",
        str(last.get("strategy") or ""),
        f"{len(records)} watched step{'' if len(records) == 1 else 's'}",
        f"{targets} target tokens a step" if targets else "target tokens not read",
        f"rows: {', '.join(kinds)}" if kinds else "",
    ]
    return " · ".join(filter(None, parts))


def step(record: Record, place: int) -> str:
    """Its number; that of its window if it has none."""
    return str((figures.steps([record]) or [place])[0])


def step_of(record: Record) -> str:
    """step 3"""
    return formatted.steps(figures.steps([record]))


def ranks(records: Sequence[Record]) -> Iterator[str]:
    """Which ranks were heard, and whether their weights are the same."""
    world = int(figures.number(records[-1].get("ranks")) or 1)
    heard = [each for r in records if (each := figures.number(r.get("heard"))) is not None]
    if world == 1:
        yield "One rank: there is nothing to compare."
        return
    if heard:
        yield f"{'All' if min(heard) >= world else int(min(heard))} of {world} ranks were heard."
    state, reason = figures.over_all(records, "ranks")
    yield {
        "balances": "Their weights are the same.",
        "differs": "Their weights differ.",
        "cannot tell": f"Whether their weights are the same was not read: {reason}.",
    }.get(state, "Their weights were not compared.")


def unread(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Station and reason, for each reason that a station gave in any window."""
    seen = {
        (name, str(figures.station(record, name).get("reason") or "no reason given")): None
        for record in records
        for name in STATIONS
        if figures.state(record, name) == "cannot tell"
    }
    yield from seen


def numbers(record: Record) -> Iterator[tuple[str, str]]:
    """Station → what else it read, key by key."""
    for name in STATIONS:
        told = [f"{key} {text}" for key, value in figures.shown(record, name).items()
                if key not in _ELSEWHERE and (text := _value(value))]  # fmt: skip
        if told:
            yield name, "; ".join(told)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if figures.number(value) is not None:
        return formatted.small(value) if isinstance(value, float) else formatted.count(value)
    if isinstance(value, str):
        return cut(value, _LONG)
    if isinstance(value, Mapping):
        parts = [f"{key} {text}" for key, each in value.items() if (text := _value(each))]
        return f"({cut(', '.join(parts), _LONG)})" if parts else ""
    return cut(", ".join(filter(None, map(_value, figures.sequence(value)))), _LONG)


def tower_cells(record: Record) -> Iterator[tuple[str, ...]]:
    """One line a tower, as `COLUMNS`."""
    for kind, tower in figures.towers(record).items():
        number = tower.get("trainable")
        cells = (
            formatted.count(tower.get("parameters")),
            formatted.count(tower.get("trained")),
            _of(tower.get("reached"), number),
            _of(tower.get("moved"), number),
            formatted.small(tower.get("gradient")),
            formatted.small(tower.get("update")),
            formatted.rates(tower.get("lr")),
        )
        yield (kind, *(cell or _UNREAD for cell in cells))


def _of(part: Any, whole: Any) -> str:
    if figures.number(part) is None:
        return ""
    if not figures.number(whole):
        return str(part)
    return f"{formatted.count(part)}/{formatted.count(whole)}"


def rows(records: Sequence[Record], most: int = ROWS) -> Iterator[Row]:
    """Rows that a station kept, the latest window's first, each place once."""
    seen: dict[str, Row] = {}
    for record in reversed(records):
        step = formatted.steps(figures.steps([record]))
        for each in figures.sequence(figures.shown(record, "rows").get("rows")):
            row = figures.mapping(each)
            title = ", ".join(_title(step, row))
            seen.setdefault(title, Row(title, tuple(_pieces(row))))
    yield from list(seen.values())[:most]


def _title(step: str, row: figures.Record) -> Iterator[str]:
    yield step
    for key, name in (("rank", "rank"), ("micro", "micro-batch"), ("row", "row")):
        if (number := figures.number(row.get(key))) is not None:
            yield f"{name} {number:.0f}"
    for key in ("kind", "why"):
        if row.get(key):
            yield str(row[key])


def _pieces(row: figures.Record) -> Iterator[tuple[str, float | None]]:
    """Neighbours of one weight in one piece; a placeholder that is repeated, once."""
    read = (_piece(each) for each in figures.sequence(row.get("pieces")))
    for weight, part in itertools.groupby(read, lambda piece: piece[1]):
        yield "".join(_shortened(text for text, _ in part)), weight


def _piece(piece: Any) -> tuple[str, float | None]:
    text, weight = (*figures.sequence(piece), None, None)[:2]
    known = figures.number(weight)
    return str(text), True if weight is True else None if known is None else round(known, 2)


def _shortened(texts: Iterable[str]) -> Iterator[str]:
    for text, group in itertools.groupby(texts):
        number = len(list(group))
        yield f"{text}×{number} " if number >= _REPEATS else text * number
