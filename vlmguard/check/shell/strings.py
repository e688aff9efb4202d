"""Strings and arrays: splitting, cutting, replacing, as expansions need them."""

from __future__ import annotations

import re

from vlmguard.check.shell import patterns
from vlmguard.check.shell.state import Array, State
from vlmguard.check.shell.tree import NotUnderstood, Param, Part


def split(text: str, separators: str) -> tuple[list[str], bool, bool]:
    """Pieces between separators, and whether one stood before or behind all."""
    if not separators:
        return ([text] if text else []), False, False
    blank = "".join(c for c in separators if c in " \t\n")
    rest = "".join(c for c in separators if c not in " \t\n")
    if not rest:
        inner = re.split(f"[{re.escape(blank)}]+", text.strip(blank)) if text.strip(blank) else []
        return inner, text[:1] in blank and bool(text), text[-1:] in blank and bool(text)
    pieces = re.split(f"[{re.escape(separators)}]", text)
    if pieces and not pieces[-1]:
        pieces.pop()
    return [piece.strip(blank) for piece in pieces], False, False


def tilde(text: str, state: State) -> str:
    if text == "~" or text.startswith("~/"):
        return state.text("HOME", "~") + text[1:]
    return text


def trim(text: str, pattern: str, op: str) -> str:
    found = patterns.glob(pattern)
    cuts = range(len(text) + 1)
    if op in ("##", "%"):
        cuts = range(len(text), -1, -1)
    if len(text) > 5000:
        raise NotUnderstood("a pattern on a long text")
    for cut in cuts:
        piece = text[:cut] if op.startswith("#") else text[cut:]
        if found.fullmatch(piece):
            return text[cut:] if op.startswith("#") else text[:cut]
    return text


def replace(text: str, pattern: str, op: str, with_: str) -> str:
    if not pattern:
        return text
    found = patterns.glob(pattern).pattern
    if op == "/#":
        found = rf"\A(?:{found})"
    elif op == "/%":
        found = rf"(?:{found})\Z"
    return re.sub(found, lambda _: with_, text, count=0 if op == "//" else 1, flags=re.S)


def spreads(part: Param) -> bool:
    """Whether it gives several fields: ``$@``, ``${a[@]}``."""
    if part.name in ("@", "*"):
        return True
    return part.index is not None and part.index.literal in ("@", "*")


def part_quoted(part: Part) -> bool:
    return part.quoted


def keys(array: Array) -> list[str]:
    return list(array.items) if array.named else sorted(array.items, key=int)
