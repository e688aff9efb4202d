"""``vlmguard explain``: what a log says of why a run failed, hung or just ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vlmguard.cli import passed

if TYPE_CHECKING:
    import typer


def main(words: Sequence[str]) -> int:
    """Read by `vlmguard.explain.command`, when it is wanted."""
    from vlmguard.explain import command

    return command.main(words)


def add(app: typer.Typer) -> None:
    """Make it a command of ``vlmguard``."""
    told = "what a log says of why a run failed, hung or just ended, and what to change"
    passed.add(app, "explain", told, main)
