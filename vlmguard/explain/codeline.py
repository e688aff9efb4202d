"""The line of source that a traceback prints under a frame."""

from __future__ import annotations

import re

from vlmguard.explain import frames

LONGEST = 140  # characters
_CARETS = re.compile(r"^[\s~^]{1,400}$")
_RICH = " │"  # rich's box, and what it marks the line with
_MARKED = re.compile(r"^❱\s{0,4}\d{1,7}\s(?:│)?")


def of(trace: list[str], place: frames.Frame) -> str:
    """What ``trace`` shows of ``place``, "" where it shows no source of it."""
    at = [n for n, text in enumerate(trace) if frames.of(text) == place]
    if not at:
        return ""
    for text in trace[at[-1] + 1 : at[-1] + 9]:
        if frames.is_frame(text):
            return ""
        said = text.strip(_RICH)
        if text.lstrip().startswith("│"):  # rich shows the lines around as well
            if found := _MARKED.match(said):
                return _short(said[found.end() :])
        elif said and not _CARETS.match(said):
            return _short(said) if text[:1].isspace() else ""
    return ""


def _short(code: str) -> str:
    code = code.strip()
    return code if len(code) <= LONGEST else code[: LONGEST - 2] + " …"
