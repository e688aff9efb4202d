"""A run's records as one page of HTML that fetches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from vlmguard import __version__
from vlmguard.ledger.account import STATIONS
from vlmguard.ledger.report import figures, formatted, found, summary
from vlmguard.ledger.report.figures import Record

_MARKS = {"balances": ("good", "✓"), "differs": ("bad", "✗"), "cannot tell": ("unsure", "?")}
_IDLE = ("idle", "·")
_ASKS = {
    "rows": "Are tokens, targets and pixels as tokenizer and processor say?",
    "targets": "Is each target the next token, and do their weights sum to 1?",
    "reach": "Did every trainable tensor that the forward used get a gradient?",
    "reduce": "Does the optimizer get the mean of what the backward made?",
    "update": "Did what has a gradient move, and nothing else?",
    "ranks": "Do all ranks have the same weights?",
}
_BARS = (
    ("trained", "Trained parameters", formatted.count),
    ("gradient", "Gradient norm", formatted.small),
    ("update", "Update norm", formatted.small),
)


def page(records: Sequence[Record], name: str) -> str:
    """The whole page.

    Args:
        name: of the report, for the foot.
    """
    style = files(__package__).joinpath("page.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(summary.verdict(records))}</title><style>\n{style}</style></head><body>\n"
        + "\n".join(_parts(records))
        + f'\n<footer class="soft">vlmguard {__version__}, made of {escape(name)}. '
        "<code>vlmguard rule VG640</code> explains a code.</footer>\n</body></html>\n"
    )


def _parts(records: Sequence[Record]) -> Iterator[str]:
    style, mark = _of_run(records)
    told = escape(summary.verdict(records))
    yield f'<h1><span class="mark {style}" aria-hidden="true">{mark}</span>{told}</h1>'
    yield f'<p class="soft">{escape(summary.over(records))}</p>'
    yield from map(_entry, found.all_of(records))
    yield "<h2>Stations over steps</h2>"
    yield from _stations(records)
    yield f"<h2>Towers, in {escape(summary.step_of(records[-1]))}</h2>"
    yield from _towers(records[-1])
    yield "<h2>Ranks</h2>"
    yield f"<p>{escape(' '.join(summary.ranks(records)))}</p>"
    yield "<h2>Rows</h2>"
    yield from _rows(records)


def _of_run(records: Sequence[Record]) -> tuple[str, str]:
    states = [figures.over_all(records, name)[0] for name in STATIONS]
    worst = next((s for s in ("differs", "balances", "cannot tell") if s in states), "")
    return _MARKS.get(worst, _IDLE)


def _entry(each: found.Found) -> str:
    style = "bad" if each.level == "warning" else "note"
    head = f"{each.code} {each.level} · {each.station} · {formatted.steps(each.steps)}"
    advice = f'<p class="soft">{escape(each.advice)}</p>' if each.advice else ""
    return (
        f'<section class="entry {style}"><p class="code">{escape(head)}</p>'
        f"<p>{escape(each.told)}</p>{advice}</section>"
    )


def _stations(records: Sequence[Record]) -> Iterator[str]:
    yield '<div class="scroll" tabindex="0"><table class="grid"><thead><tr><th>step</th>'
    yield "".join(f"<th>{escape(summary.step(r, n))}</th>" for n, r in enumerate(records))
    yield "</tr></thead><tbody>"
    for name in STATIONS:
        cells = "".join(_cell(record, name) for record in records)
        yield f'<tr><th scope="row" title="{escape(_ASKS[name])}">{name}</th>{cells}</tr>'
    yield "</tbody></table></div>"
    key = "".join(
        f'<span class="{style}">{mark} {state}</span>'
        for state, (style, mark) in {**_MARKS, "nothing to read": _IDLE}.items()
    )
    yield f'<p class="soft key">{key}</p>'
    for name, reason in summary.unread(records):
        yield f'<p class="soft"><b class="unsure">? {name}</b>: {escape(reason)}</p>'
    for name, told in summary.numbers(records[-1]):
        yield f'<p class="soft"><b>{name}</b>, last read: {escape(told)}</p>'


def _cell(record: Record, name: str) -> str:
    state = figures.state(record, name)
    style, mark = _MARKS.get(state, _IDLE)
    reason = str(figures.station(record, name).get("reason") or "")
    told = escape(f"{name}: {state}" + (f", {reason}" if reason else ""))
    return f'<td><span class="cell {style}" title="{told}" aria-label="{told}">{mark}</span></td>'


def _towers(record: Record) -> Iterator[str]:
    head = "".join(f"<th>{each}</th>" for each in summary.COLUMNS)
    yield f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>'
    for first, *cells in summary.tower_cells(record):
        told = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield f'<tr><th scope="row">{escape(first)}</th>{told}</tr>'
    yield f'</tbody></table></div><p class="soft">{escape(summary.MEANT)}.</p>'
    yield from _bars(figures.towers(record))


def _bars(towers: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield '<div class="bars">'
    for key, title, told in _BARS:
        values = {kind: figures.number(tower.get(key)) for kind, tower in towers.items()}
        most = max((value for value in values.values() if value), default=0)
        if not most:
            continue
        yield f"<h3>{title}</h3>"
        for kind, value in values.items():
            part = max(100 * (value or 0) / most, 0)
            yield (
                f'<span>{escape(kind)}</span><span class="bar" style="--part:{part:.2f}"><i></i>'
                f'</span><span class="soft">{told(value) or "not read"}</span>'
            )
    yield "</div>"


def _rows(records: Sequence[Record]) -> Iterator[str]:
    rows = list(summary.rows(records))
    if not rows:
        yield '<p class="soft">No row was kept: the station is not read in this run.</p>'
        return
    yield (
        '<p class="soft">Target tokens are <mark style="--weight:1">marked</mark>, the stronger '
        'the more they weigh in the loss; <mark class="minus" style="--weight:1">these</mark> are '
        'made less likely; of <mark class="unknown">these</mark> the weight was not read.</p>'
    )
    for row in rows:
        yield _row(row)


def _row(row: summary.Row) -> str:
    weights = [abs(w) for _, w in row.pieces if w is not None and w is not True]
    most = max(weights, default=0.0) or 1.0
    told = "".join(_piece(text, weight, most) for text, weight in row.pieces)
    return f'<div class="row"><span class="soft">{escape(row.title)}</span><pre>{told}</pre></div>'


def _piece(text: str, weight: float | None, most: float) -> str:
    told = escape(formatted.printable(text).replace("↵", "↵\n"))
    if weight is None:
        return told
    if weight is True:
        return f'<mark class="unknown">{told}</mark>'
    style = ' class="minus"' if weight < 0 else ""
    small = "" if weight == 1 else f"<small>{formatted.small(weight)}</small>"
    part = abs(weight) / most
    return (
        f'<mark{style} style="--weight:{part:.3f}" title="weight {weight:.4g}">{told}{small}</mark>'
    )
