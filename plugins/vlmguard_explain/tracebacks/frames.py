"""A traceback's frames and their source, as Python, rich, a notebook or a quotation print them."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard_explain.lazy import patterns, words

_P = patterns("lines.frames")
_T = words("lines.frames")

Frame = tuple[str, int, str]  # path, line, function
LONGEST = 140  # characters


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


def code_under(trace: Sequence[str], number: int, longest: int = LONGEST) -> str:
    """The source under the frame that ``trace`` has there, at most ``longest`` characters of it."""
    for text in trace[number + 1 : number + 9]:
        if of(text) is not None:
            return ""
        code = text.strip(" │")
        if text.lstrip().startswith("│"):  # rich also shows the lines around it
            match = _P.marked.match(code)
            code = code[match.end() :].strip("│ ") if match else ""  # rich's indent guides
        elif code and not _P.carets.match(code) and not text[:1].isspace():
            return ""
        if code and not _P.carets.match(code):
            return code if len(code) <= longest else code[: longest - 2] + " …"
    return ""


def own(found: Sequence[Frame]) -> Frame | None:
    """The innermost line of the user's own code."""
    return next((one for one in reversed(found) if users(one[0])), None)


def main(found: Sequence[Frame]) -> str:
    """The user's script that was started."""
    first = found[0][0] if found else ""
    return first if first.endswith(".py") and users(first) else ""


def raised(found: Sequence[Frame]) -> Frame:
    """The innermost line that is in a file."""
    return next((one for one in reversed(found) if "<" not in one[0]), ("", 0, ""))
