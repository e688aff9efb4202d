"""Glob patterns and extended regular expressions, with what could run for ever refused."""

from __future__ import annotations

import functools
import re

from vlmguard.check.shell.tree import NotUnderstood

_CLASSES = {"alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "space": r"\s",
            "upper": "A-Z", "lower": "a-z", "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9a-fA-F",
            "blank": r" \t", "word": r"\w"}  # fmt: skip


@functools.lru_cache(512)
def glob(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression for a whole string; a backslash quotes.

    Raises:
        NotUnderstood: more than eight stars, which could backtrack for very long.
    """
    text = ""
    stars = 0
    at = 0
    while at < len(pattern):
        here = pattern[at]
        at += 1
        if here == "*":
            if not text.endswith(".*"):
                stars += 1
                text += ".*"
        elif here == "?":
            text += "."
        elif here == "\\" and at < len(pattern):
            text += re.escape(pattern[at])
            at += 1
        elif here == "[" and (end := _closing(pattern, at)) > 0:
            inside = pattern[at:end]
            negated = inside[:1] in ("!", "^")
            text += f"[{'^' if negated else ''}{_members(inside[negated:])}]"
            at = end + 1
        else:
            text += re.escape(here)
    if stars > 8:
        raise NotUnderstood("a pattern with more than eight stars")
    return re.compile(text, re.S)


def _closing(pattern: str, at: int) -> int:
    start = at + (pattern[at : at + 1] in ("!", "^"))
    start += pattern[start : start + 1] == "]"
    while start < len(pattern):
        if pattern.startswith("[:", start):
            start = pattern.find(":]", start) + 2
            if start < 2:
                return -1
        elif pattern[start] == "]":
            return start
        else:
            start += 1
    return -1


def _members(inside: str) -> str:
    parts = re.split(r"(\[:\w+:\])", inside)
    return "".join(
        _CLASSES.get(part[2:-2], "")
        if part.startswith("[:")
        else part.replace("\\", "\\\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
        for part in parts
    )


def quote(text: str) -> str:
    """So that `glob` takes every character as itself."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


@functools.lru_cache(512)
def regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """An extended regular expression. Raises `NotUnderstood` for one that nests repetitions."""
    if re.search(r"[*+}]\)?\s*[*+{]|[*+}|][^()]*\)[*+{]", pattern) or len(pattern) > 500:
        raise NotUnderstood(f"the pattern {pattern[:40]!r} repeats a repetition")
    translated = re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found[1], ""), pattern)
    try:
        return re.compile(translated, flags)
    except re.error as error:
        raise NotUnderstood(f"the pattern {pattern[:40]!r}: {error}") from None
