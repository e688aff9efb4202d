"""What is typed of a step, and the words about it: words are printed as a comment, behind "#"."""

from __future__ import annotations

from vlmguard_explain.lazy import patterns

_P = patterns("show.shellwords")


def split(said: str) -> tuple[str, str]:
    """(what is typed, the words about it): a step begins with the first, in back-ticks."""
    typed, _, about = said[1:].partition("`") if said.startswith("`") else ("", "", said)
    return typed, codes(about).lstrip(":,; ") if typed else codes(about)


def codes(said: str) -> str:
    """``said`` with the command that shows a code's page beside each bare code."""
    said = _P.bracketed.sub(r"(vlmguard rule \1)", said)
    return _P.code.sub(r"\1 (vlmguard rule \1)", said)


def folded(typed: str, width: int) -> list[str]:
    """A command on lines of at most ``width``, where its spaces allow that."""
    bare = _P.quoted.sub(lambda match: "_" * len(match[0]), typed)
    spaces = [n for n, sign in enumerate(bare) if sign == " "]
    lines, start = [], 0
    while len(typed) - start > width:
        at = max((n for n in spaces if start < n <= start + width - 2), default=0)
        if not at:
            break
        lines.append(f"{typed[start:at]} \\")
        start = at + 1
    return [*lines, typed[start:]]
