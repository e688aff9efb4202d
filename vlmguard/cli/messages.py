"""What several commands say in the same way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import typer


def fail(text: str, code: int = 2) -> NoReturn:
    """One line on standard error, and out with ``code``."""
    typer.echo(f"vlmguard: {text}", err=True)
    raise typer.Exit(code)


def show_json(data: Any) -> None:
    """Data for another program."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def columns(rows: Iterable[Sequence[str]], indent: int = 2) -> Iterator[str]:
    """Rows as lines whose cells stand below each other: no frame, nothing cut, fit to be pasted."""
    rows = [list(row) for row in rows]
    if not rows:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield (" " * indent + "  ".join(cells)).rstrip()
