"""``vlmguard run -- COMMAND``: arms every Python that the command starts, without a ``.pth`` file.

Puts a folder with a ``sitecustomize`` in front of PYTHONPATH, which Python imports at its start; a
``sitecustomize`` of the user's own is then run as well. Then becomes the command.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
from pathlib import Path
from typing import Annotated

import typer

from vlmguard.cli import messages

SHIM = Path(__file__).resolve().parents[1] / "_run"


def add(app: typer.Typer) -> None:
    """Put the command into the program."""
    app.command(
        "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
    )(run)


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="your training command, behind --")
    ],
) -> None:
    """Run a command with vlmguard.

    Use it where vlmguard cannot install a .pth file: type `vlmguard run -- swift sft …` in place
    of `swift sft …`. You do not need it where `vlmguard doctor` says "armed: yes".

    Exit status: the command's own; 127, there is no such program.
    """
    # The programs of an environment that is not activated lie beside its Python.
    program = shutil.which(command[0]) or shutil.which(command[0], path=Path(sys.executable).parent)
    if program is None:
        messages.fail(f"run: there is no program {command[0]!r} on PATH", 127)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(program, command, environment(dict(os.environ)))


def environment(given: dict[str, str]) -> dict[str, str]:
    """The variables of the command."""
    before = [entry for entry in given.get("PYTHONPATH", "").split(os.pathsep) if entry]
    path = [str(SHIM), *(entry for entry in before if entry != str(SHIM))]
    return {**given, "PYTHONPATH": os.pathsep.join(path), "VLMGUARD_PATH": os.pathsep.join(homes())}


def homes() -> list[str]:
    """Folders to look in where the command's Python has no vlmguard: a checkout, or what
    ``pip install --target`` made. Never another environment's site-packages, which would lend
    the command packages that it does not have."""
    import vlmguard

    root = Path(vlmguard.__file__).resolve().parents[1]
    sites = {Path(folder).resolve() for folder in (*site.getsitepackages(), _user_site())}
    if root in sites:
        return []
    plugins = root / "plugins"
    return [str(root), *([str(plugins)] if plugins.is_dir() else [])]


def _user_site() -> str:
    return site.getusersitepackages() or "/"
