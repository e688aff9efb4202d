"""``vlmguard rehearse``: the first steps of a training command, on this CPU, in a minute.

    vlmguard rehearse --world 64 -- swift sft --model Qwen/Qwen2.5-VL-7B-Instruct …
    vlmguard rehearse train.sh

Runs the framework's own code in two ranks, with the guard off and on, on a tiny copy of the model
and on some of your rows. Nothing of yours is written to, no GPU is used.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import typer

EPILOG = "Exit status: 0, right; 1, will fail; 2, cannot tell."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(message)


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave with status 2."""
    sys.stderr.write(f"vlmguard rehearse: {message}\n")
    raise SystemExit(2)


def main(words: Sequence[str] | None = None) -> int:
    """Rehearse every training command of a script, or one command; the worst exit status."""
    words = list(sys.argv[2:] if words is None else words)
    command: list[str] = []
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]
    asked = _parse(words)
    if bool(asked.script) == bool(command):
        fail("one script, or -- and a command, as in: vlmguard rehearse -- swift sft --model …")
    if asked.world is not None and asked.world < 1:
        fail("--world: a number of ranks, 1 or more")
    from vlmguard.check import script
    from vlmguard.rehearse import jobs, show

    try:
        if command:
            reading = script.of_words(command, os.environ)
        else:
            reading = script.of_file(asked.script[0], asked.script[1:], os.environ)
    except OSError as error:
        fail(str(error) if error.filename is None else f"{error.filename}: {error.strerror}")
    quiet = asked.format != "text"
    try:
        told, code = jobs.rehearse(reading, asked.world, asked.thorough, asked.yes, quiet)
    except KeyboardInterrupt:
        sys.stderr.write("vlmguard rehearse: interrupted; nothing is left behind\n")
        return 130
    if asked.format == "json":
        print(show.as_json(reading.name, told, code))
    elif asked.format == "github":
        lines = show.github(told)
        print(lines) if lines else None
    else:
        print(show.text(told) if told else jobs.nothing(reading))
    return code


def add(app: typer.Typer) -> None:
    """Make it a command of ``vlmguard``. Its words are read here: typer would swallow ``--``."""
    import typer

    @app.command(
        "rehearse",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
        help="the first steps of a training command, on this CPU, in a minute",
    )
    def command() -> None:
        raise typer.Exit(main(sys.argv[sys.argv.index("rehearse") + 1 :]))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="vlmguard rehearse", description=__doc__, epilog=EPILOG,
                     allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("script", nargs="*", help="a bash script, and its arguments")
    parser.add_argument("--world", type=int, metavar="N",
                        help="the number of ranks, where the command does not say")  # fmt: skip
    parser.add_argument("--thorough", action="store_true", help="more orders of rows")
    parser.add_argument("--yes", action="store_true",
                        help="run your own code: plug-ins, reward functions")  # fmt: skip
    parser.add_argument("--format", default="text", choices=("text", "json", "github"))
    return parser.parse_args(list(words))
