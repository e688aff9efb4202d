"""Commands that are given another command, or files of any name: their words are read by argparse,
since typer would swallow ``--``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from vlmguard.core.words import Parser as _Parser

if TYPE_CHECKING:
    import typer


def fail(name: str, message: str) -> NoReturn:
    """Say what is wrong and leave with status 2."""
    sys.stderr.write(f"vlmguard {name}: {message}\n")
    raise SystemExit(2)


class Parser(_Parser):
    """Of a command that is given one."""

    def one_job(self, words: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
        """The options, with ``script`` and its arguments; or a command, which stands behind
        ``--``. It is one of both."""
        words = list(sys.argv[2:] if words is None else words)
        command: list[str] = []
        if "--" in words:
            at = words.index("--")
            words, command = words[:at], words[at + 1 :]
        self.add_argument(
            "script",
            nargs="*",
            help="a bash script, a Python file or a notebook, and its arguments; "
            "or -- and a command",
        )
        asked, unknown = self.parse_known_args(words)
        if unknown:
            self.error(self.unknown(unknown, self._scripts(unknown, words, asked.script)))
        if bool(asked.script) == bool(command):
            self.error(
                f"give one script, or -- and a command, as in: {self.prog} -- swift sft --model …"
            )
        return asked, command

    def _scripts(self, flags: Sequence[str], words: Sequence[str], script: Sequence[str]) -> str:
        """What to type where the flags are the script's; "" where they are not."""
        if not script or words.index(flags[0]) < words.index(script[0]):
            return ""
        rest = shlex.join(words[words.index(script[0]) :])
        if _is_program(script[0]):
            return f". A command comes after --: {self.prog} -- {rest}"
        starts = "python" if script[0].endswith(".py") else "bash"
        return f". If they are the script's: {self.prog} -- {starts} {rest}"


def _is_program(word: str) -> bool:
    """Whether the word rather names a program, as in ``swift sft``, than a file."""
    return not os.path.splitext(word)[1] and not os.path.exists(word)


def unreadable(name: str, error: OSError) -> NoReturn:
    """A file that cannot be read: one line that names it."""
    if error.filename is None:
        fail(name, str(error))
    said, missing = f"{error.filename}: {error.strerror}", isinstance(error, FileNotFoundError)
    if missing and _is_program(str(error.filename)):
        said += f". A command comes after --: vlmguard {name} -- {error.filename} …"
    fail(name, said)


def add(app: typer.Typer, name: str, told: str, main: Callable[[Sequence[str]], int]) -> None:
    """Make ``main`` the command ``name``; it is given the words behind that."""
    import typer

    @app.command(
        name,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
        help=told,
    )
    def command() -> None:
        raise typer.Exit(main(sys.argv[sys.argv.index(name) + 1 :]))
