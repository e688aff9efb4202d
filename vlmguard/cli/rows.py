"""``vlmguard rows``: which rows of a data set break JSON, placeholders, roles or images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from vlmguard.cli import passed

if TYPE_CHECKING:
    import typer


def main(words: Sequence[str]) -> int:
    """Read by `vlmguard_explain.bad_rows`, when it is wanted."""
    main: Callable[[Sequence[str]], int] = import_module("vlmguard_explain.bad_rows").main
    return main(words)


def add(app: typer.Typer) -> None:
    """Make it a command of ``vlmguard``."""
    told = "List the rows of a data set that would break a training."
    passed.add(app, "rows", told, main)
