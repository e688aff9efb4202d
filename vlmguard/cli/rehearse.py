"""Run the first steps of a training command on this CPU, in about a minute.

    vlmguard rehearse --world 64 -- swift sft --model Qwen/Qwen2.5-VL-7B-Instruct …
    vlmguard rehearse train.sh
    vlmguard rehearse --yes -- torchrun --nproc_per_node 8 train.py …

It runs the framework's own code, or with --yes your own script, in two ranks, without vlmguard and
with it, on a tiny copy of the model and on some of your rows. It changes none of your files and
uses no GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vlmguard.cli import passed

if TYPE_CHECKING:
    import typer

EPILOG = """\
Exit status: 0, it trains right; 1, it will fail or train wrongly; 2, it cannot tell; 3, it trains
right as far as this shows: some flags were left out or replaced, and the answer names them.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Rehearse every training command of a script, or one command; the worst exit status."""
    asked, command = _parser().one_job(words)
    if asked.world is not None and asked.world < 1:
        passed.fail("rehearse", "--world must be a number of ranks, 1 or more")
    from vlmguard.check import script

    try:
        if command:
            reading = script.of_words(command, os.environ)
        else:
            reading = script.of_file(asked.script[0], asked.script[1:], os.environ)
    except OSError as error:
        passed.unreadable("rehearse", error)
    try:
        from vlmguard.check.show import unseen
        from vlmguard.rehearse import jobs, show
    except ModuleNotFoundError as error:
        passed.fail("rehearse", f"{error.name} is not installed here; a rehearsal runs the "
                    "framework's own code: run it in the environment that trains")  # fmt: skip
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
        print(show.text(told, unseen(reading)) if told else jobs.nothing(reading))
    return code


def add(app: typer.Typer) -> None:
    """Make it a command of ``vlmguard``."""
    told = "Run the first steps of a command on this CPU."
    passed.add(app, "rehearse", told, main)


def _parser() -> passed.Parser:
    parser = passed.Parser("rehearse", __doc__, epilog=EPILOG)
    parser.add_argument("--world", type=int, metavar="N",
                        help="how many ranks to rehearse for (default: as many as the command "
                             "starts)")  # fmt: skip
    parser.add_argument("--thorough", action="store_true",
                        help="try more orders of rows: takes longer")  # fmt: skip
    parser.add_argument("--yes", action="store_true",
                        help="run your own code (scripts, plug-ins, rewards) without "
                             "asking")  # fmt: skip
    parser.add_argument("--format", default="text", choices=("text", "json", "github"),
                        help="text to read (default), json for programs, github for notes on a "
                             "pull request")  # fmt: skip
    return parser
