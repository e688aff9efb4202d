"""Standard error, which may be closed, full, or something of a program's own: never raises."""

from __future__ import annotations

import sys

PREFIX = "vlmguard: "


def say(text: str) -> None:
    """One line, in one write: ranks share the terminal. Without a place to say it, nothing."""
    try:
        sys.stderr.write(f"{PREFIX}{text}\n")
        sys.stderr.flush()
    except Exception:
        pass
