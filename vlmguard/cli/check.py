"""Say what a training command or script will do, before you start it.

    vlmguard check -- swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --deepspeed zero3 …
    vlmguard check train.sh

Without --deep it starts, downloads and writes nothing, and loads neither torch nor the framework.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vlmguard.cli import passed

if TYPE_CHECKING:
    import typer

    from vlmguard.check.answer import Answer

EPILOG = """\
Exit status: 0, no error was found (with --strict: and no warning); 1, an error was found (with
--strict: or a warning), or the framework refuses the command; 2, it cannot tell.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Check scripts or one command; the worst of their exit statuses."""
    asked, command = _parser().one_job(words)
    try:
        answers = list(_answers(asked, command))
    except OSError as error:
        passed.unreadable("check", error)
    if told := _shown(answers, asked):
        print(told)
    codes = {answer.code(asked.strict) for answer in answers}
    return next((code for code in (1, 2) if code in codes), 0)


def _answers(asked: argparse.Namespace, command: Sequence[str]) -> Iterator[Answer]:
    """Of the command, of one script with its arguments, or, with --each, of each script."""
    from vlmguard.check import answer as checks

    releases = _releases(asked.releases)
    if command:
        yield checks.of_command(command, releases, asked.deep)
        return
    scripts = [[name] for name in asked.script] if asked.each else [asked.script]
    for name, *arguments in scripts:
        yield checks.of_script(name, arguments, releases, asked.shell, asked.deep)


def _shown(answers: Sequence[Answer], asked: argparse.Namespace) -> str:
    from vlmguard.check import show

    if asked.format == "json":
        return show.as_json(answers, asked.strict)
    if asked.format == "sarif":
        return show.sarif(answers)
    if asked.format == "github":
        return show.github(answers)
    return "\n".join(show.text(answer, asked.strict) for answer in answers)


def add(app: typer.Typer) -> None:
    """Make it a command of ``vlmguard``."""
    passed.add(app, "check", "Say what a command will do, before you start it.", main)


def _parser() -> passed.Parser:
    parser = passed.Parser("check", __doc__, epilog=EPILOG)
    parser.add_argument("--no-shell", dest="shell", action="store_false",
                        help="find the commands as the script writes them: do not work out "
                             "its variables, conditions and loops")  # fmt: skip
    parser.add_argument("--each", action="store_true",
                        help="every word is a script of its own, without arguments")  # fmt: skip
    parser.add_argument("--deep", action="store_true",
                        help="also let the framework itself read the flags, in a process "
                             "without network and home folder: half a minute")  # fmt: skip
    parser.add_argument("--releases", default="", metavar="NAME=RELEASE,…",
                        help="what is installed on the machine that will run the command, "
                             "as in swift=3.2.0,deepspeed=0.18.9 (default: what is installed "
                             "here)")  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="treat a warning as an error")
    parser.add_argument("--format", default="text", choices=("text", "json", "sarif", "github"),
                        help="text to read (default), json for programs, sarif for code "
                             "scanning, github for notes on a pull request")  # fmt: skip
    return parser


def _releases(text: str) -> dict[str, str]:
    """``swift=3.2.0,deepspeed=0.18.9`` → distribution → release."""
    names = {"swift": "ms-swift", "ms_swift": "ms-swift", "flagembedding": "FlagEmbedding"}
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, release = item.partition("=")
        release = release.lstrip("=")
        from packaging.version import InvalidVersion, Version

        try:
            Version(release)
        except InvalidVersion:
            passed.fail("check", f"--releases: {item!r} is not NAME=RELEASE, as in swift=3.2.0")
        if not equals:
            passed.fail("check", f"--releases: {item!r} is not NAME=RELEASE, as in swift=3.2.0")
        found[names.get(name.lower(), name)] = release
    return found
