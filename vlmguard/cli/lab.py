"""``vlmguard lab``: where the lab went that measures the tables."""

from __future__ import annotations

import typer

WHERE = (
    "The lab is not part of the installed package. It lies in vlmguard's repository: "
    "`python -m tools.lab --help` in a checkout of it."
)


def add(app: typer.Typer) -> None:
    """Put the command into the program."""
    taken = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(hidden=True, context_settings=taken)(lab)


def lab() -> None:
    """Say where the lab is."""
    typer.echo(WHERE, err=True)
    raise typer.Exit(2)
