"""The console script. Imports a command's own needs only when that command runs."""

from __future__ import annotations


def main() -> int:
    """Run one command; typer leaves through `SystemExit` with the command's status."""
    from vlmguard.cli.app import app

    app(prog_name="vlmguard")
    return 0
