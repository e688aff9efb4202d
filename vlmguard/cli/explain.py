"""``vlmguard explain``: what a log says of why a run failed, hung or just ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def add(app: typer.Typer) -> None:
    """Put the command into ``app``; its words are read by `vlmguard.explain.command`."""
    import typer

    @app.command(
        "explain",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
        help="what a log says of why a run failed, hung or just ended, and what to change",
    )
    def explain() -> None:
        from vlmguard.explain import command

        raise typer.Exit(command.main(sys.argv[sys.argv.index("explain") + 1 :]))
