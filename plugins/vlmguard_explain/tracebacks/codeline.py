"""The line of source that a traceback prints under a frame."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard_explain.lazy import patterns
from vlmguard_explain.tracebacks import frames

_P = patterns("lines.codeline")

LONGEST = 140  # characters


def of(trace: list[str], place: frames.Frame) -> str:
    """What ``trace`` shows of ``place``, "" where it shows no source of it."""
    at = [n for n, text in enumerate(trace) if frames.of(text) == place]
    return under(trace, at[-1]) if at else ""


def under(trace: Sequence[str], number: int, longest: int = LONGEST) -> str:
    """The source under the frame that ``trace`` has there, at most ``longest`` characters of it."""
    for text in trace[number + 1 : number + 9]:
        if frames.is_frame(text):
            return ""
        code = text.strip(" │")
        if text.lstrip().startswith("│"):  # rich shows the lines around as well
            match = _P.marked.match(code)
            code = code[match.end() :].strip("│ ") if match else ""  # its guides of indents
        elif code and not _P.carets.match(code) and not text[:1].isspace():
            return ""
        if code and not _P.carets.match(code):
            return code if len(code) <= longest else code[: longest - 2] + " …"
    return ""
