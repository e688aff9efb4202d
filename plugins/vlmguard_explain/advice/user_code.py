"""The user's own code in a traceback: files, lines, and the script that was started."""

from __future__ import annotations

from typing import NamedTuple

from vlmguard_explain.lazy import lazy
from vlmguard_explain.tracebacks.frames import users

_FRAME = lazy(r"File \"([^\"\n]{1,200})\", line (\d{1,7})(?:, in ([\w.<>]{1,80}))? ?")


class Place(NamedTuple):
    """A frame of a traceback; ``code``: its line, as it stands there."""

    file: str = ""
    line: int = 0
    name: str = ""
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""


def frames(trace: str) -> list[Place]:
    """The frames, the outermost first."""
    found = []
    for match in _FRAME.finditer(trace):
        code = trace[match.end() : match.end() + 400].partition(' File "')[0]
        found.append(Place(match[1], int(match[2]), match[3] or "", code))
    return found


def own(trace: str) -> Place:
    """The innermost line of the user's own code."""
    return next((one for one in reversed(frames(trace)) if users(one.file)), Place())


def main(trace: str) -> str:
    """The user's script that was started."""
    first = next(iter(frames(trace)), Place()).file
    return first if first.endswith(".py") and users(first) else ""


def raised(trace: str) -> Place:
    """The innermost line that is in a file."""
    return next((one for one in reversed(frames(trace)) if "<" not in one.file), Place())
