"""A run's records in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vlmguard.ledger.account import STATIONS
from vlmguard.ledger.report import figures, formatted, found, summary
from vlmguard.ledger.report.figures import Record

MARKS = {"balances": ("✓", "green"), "differs": ("✗", "bold red"), "cannot tell": ("?", "yellow")}
IDLE = ("·", "dim")
_STEPS, _ROWS = 12, 4


def view(records: Sequence[Record]) -> Group:
    """All that is known of a run, the verdict first."""
    return Group(*_parts([_clean(record) for record in records]))


def _clean(value: Any) -> Any:
    """Every text in it without what a terminal would obey."""
    if isinstance(value, dict):
        return {formatted.printable(key): _clean(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return formatted.printable(value) if isinstance(value, str) else value


def _parts(records: Sequence[Record]) -> Iterator[RenderableType]:
    yield Text(summary.verdict(records), style="bold")
    yield Text(summary.over(records), style="dim")
    yield from _found(records)
    yield Text("\nStations over steps", style="bold")
    yield _stations(records)
    yield from _reasons(records)
    yield Text("\nTowers, in the last step that was watched", style="bold")
    yield _towers(records[-1])
    yield Text(summary.MEANT, style="dim")
    yield Text("\nRanks", style="bold")
    yield Text(" ".join(summary.ranks(records)))
    rows = list(summary.rows(records, _ROWS))
    if rows:
        yield Text("\nRows: [target tokens], with their weight if it is not 1", style="bold")
        yield from (_row(row) for row in rows)


def _found(records: Sequence[Record]) -> Iterator[Text]:
    for each in found.all_of(records):
        style = "bold red" if each.level == "warning" else "cyan"
        told = Text.assemble("\n", (f"{each.code} {each.level}", style), f": {each.told}")
        yield told.append(f"\n    {each.advice}" if each.advice else "")


def _stations(records: Sequence[Record]) -> Table:
    """A grid: the first steps, and the last ones."""
    records = [*records[: _STEPS // 2], *records[_STEPS // 2 :][-_STEPS // 2 :]]
    table = _table("step", *(summary.step(record, n) for n, record in enumerate(records)))
    for name in STATIONS:
        marks = (MARKS.get(figures.state(record, name), IDLE) for record in records)
        table.add_row(name, *(Text(*mark) for mark in marks))
    return table


def _reasons(records: Sequence[Record]) -> Iterator[Text]:
    yield Text("✓ balances  ✗ differs  ? cannot tell  · nothing to read", style="dim")
    for name, reason in summary.unread(records):
        yield Text(f"? {name}: {reason}", style="yellow")
    for name, told in summary.numbers(records[-1]):
        yield Text(f"  {name}, last read: {told}", style="dim")


def _towers(record: Record) -> Table:
    table = _table(*summary.COLUMNS)
    for cells in summary.tower_cells(record):
        table.add_row(*cells)
    return table


def _row(row: Any) -> Text:
    told = Text(f"{row.title}: ", style="dim")
    for text, weight in row.pieces:
        if weight is None:
            told.append(text, "not bold")
        else:
            mark = "" if weight in (True, 1) else f"·{formatted.small(weight)}"
            told.append(f"[{text}{mark}]", "bold green" if weight > 0 else "bold red")
    return told


def _table(*heads: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left", no_wrap=True)
    return table
