"""The program ``vlmguard``: each command is a module of this folder that `add`s itself.

A command's module imports typer and the standard library; what it needs besides it imports when it
runs, so that ``vlmguard compat`` may be asked in a loop.
"""

from __future__ import annotations

import importlib
import shlex
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from vlmguard import __version__
from vlmguard.cli import messages

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


class _Program(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A training command or a script in the place of a command: name the right one."""
        word = args[0]
        if word in COMMANDS or word.startswith("-") or get_close_matches(word, COMMANDS):
            return super().resolve_command(ctx, args)
        script = word.endswith((".sh", ".py", ".ipynb"))
        meant = f"vlmguard check {'' if script else '-- '}{shlex.join(args)}"
        messages.fail(
            f"there is no command {word!r}. To judge a training before it starts: {meant}"
        )


app = typer.Typer(
    cls=_Program,
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
