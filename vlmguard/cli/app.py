"""The program ``vlmguard``: each command is a module of this folder that `add`s itself.

A command's module imports typer and the standard library; what it needs besides it imports when it
runs, so that ``vlmguard compat`` may be asked in a loop.
"""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from vlmguard import __version__

COMMANDS = (
    "check",
    "rehearse",
    "explain",
    "rows",
    "files",
    "ledger",
    "doctor",
    "selftest",
    "run",
    "compat",
    "rule",
    "lab",
)
"""In the order of ``vlmguard --help``."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vlmguard {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the release")
    ] = False,
) -> None:
    """vlmguard prevents, fixes and explains failures of vision-language fine-tuning on many GPUs.

    You do not have to call anything: once vlmguard is installed, it guards your usual training
    command. The commands below look at an installation, a command, a data set or a log.
    `vlmguard COMMAND --help` explains one of them.
    """


for _name in COMMANDS:
    importlib.import_module(f"vlmguard.cli.{_name}").add(app)
