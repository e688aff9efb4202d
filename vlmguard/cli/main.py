"""The console script: ``vlmguard compat`` by the short way, everything else by `vlmguard.cli`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run one command. typer and rich cost 0.2 s, which ``compat`` does without."""
    if sys.argv[1:2] == ["compat"]:
        from vlmguard.cli import compat as ask

        return ask.main()
    from vlmguard.cli.app import app

    app()
    return 0
