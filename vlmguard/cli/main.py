"""The console script. Imports a command's own needs only when that command runs."""

from __future__ import annotations

import importlib
import sys


def main() -> int:
    """Run one command; typer leaves through `SystemExit` with the command's status."""
    if sys.argv[1:2] in (["explain"], ["rows"]):  # without typer these start sooner
        command = importlib.import_module(f"vlmguard.cli.{sys.argv[1]}")
        return int(command.main(sys.argv[2:]))
    from vlmguard.cli.app import app

    app(prog_name="vlmguard")
    return 0
