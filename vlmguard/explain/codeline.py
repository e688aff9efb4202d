"""The line of source that a traceback prints under a frame."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.explain import frames

LONGEST = 140  # characters
_CARETS = re.compile(r"^[\s~^]{1,400}$")
_RICH = " │"  # rich's box, and what it marks the line with
_MARKED = re.compile(r"^❱\s{0,4}\d{1,7}\s(?:│)?")


def of(trace: list[str], place: frames.Frame) -> str:
    """What ``trace`` shows of ``place``, "" where it shows no source of it."""
    at = [n for n, text in enumerate(trace) if frames.of(text) == place]
    return under(trace, at[-1]) if at else ""


def under(trace: Sequence[str], number: int, longest: int = LONGEST) -> str:
    """The source under the frame that ``trace`` has there, at most ``longest`` characters of it."""
    for text in trace[number + 1 : number + 9]:
        if frames.is_frame(text):
            return ""
        said = text.strip(_RICH)
        if text.lstrip().startswith("│"):  # rich shows the lines around as well
            if found := _MARKED.match(said):
                return _short(said[found.end() :].lstrip("│ "), longest)  # its guides of indents
        elif said and not _CARETS.match(said):
            return _short(said, longest) if text[:1].isspace() else ""
    return ""


def _short(code: str, longest: int) -> str:
    code = code.strip()
    return code if len(code) <= longest else code[: longest - 2] + " …"
