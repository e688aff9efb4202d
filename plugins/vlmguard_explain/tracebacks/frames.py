"""A traceback's frames, as Python, rich, a notebook or a quotation print them."""

from __future__ import annotations

from vlmguard_explain.lazy import patterns, words

_P = patterns("lines.frames")
_T = words("lines.frames")

Frame = tuple[str, int, str]
"""Path, line, function."""


def paths(trace: str) -> list[str]:
    """The files of a traceback's text, outermost first."""
    return _P.path.findall(trace)


def foreign(path: str) -> bool:
    """Whether a file is an installed package's or Python's own, or code made of a string."""
    return bool(_P.installed.search(path))


def users(path: str) -> bool:
    """Whether a file is the user's own: neither `foreign` nor in a framework's checkout."""
    return not foreign(path) and not any(part in path for part in _T.checkouts)


def of(text: str) -> Frame | None:
    """The frame that a line names."""
    for form in _P.list_of("forms"):
        if match := form.match(text):
            function = (match["function"] or "").strip().rpartition(".")[2]
            return match["path"], int(match.groupdict().get("line") or 0), function
    return None


def is_frame(text: str) -> bool:
    """Whether a traceback's line names a frame, as Python, rich or a notebook print it."""
    return of(text) is not None
