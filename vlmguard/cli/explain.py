"""``vlmguard explain``: what a log says of why a run failed, hung or just ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from vlmguard.cli import passed

if TYPE_CHECKING:
    import typer


def main(words: Sequence[str]) -> int:
    """Read by `vlmguard_explain.command`, when it is wanted."""
    main: Callable[[Sequence[str]], int] = import_module("vlmguard_explain.command").main
    return main(words)


def add(app: typer.Typer) -> None:
    """Make it a command of ``vlmguard``."""
    told = "Say why a run failed, from its log."
    passed.add(app, "explain", told, main)
