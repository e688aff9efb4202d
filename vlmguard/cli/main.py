"""The console script: ``compat`` and ``explain`` by the short way, all else by `vlmguard.cli`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run one command. typer and rich cost 0.2 s, which these two do without."""
    if sys.argv[1:2] == ["compat"]:
        from vlmguard.cli import compat as ask

        return ask.main()
    if sys.argv[1:2] == ["explain"]:
        from vlmguard.explain import command

        return command.main()
    from vlmguard.cli.app import app

    app()
    return 0
