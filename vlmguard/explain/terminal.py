"""Text copied from a terminal (tmux, a web console): long lines are broken at its width."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

NARROWEST, WIDEST = 60, 400
FULL = 3  # lines that fill the width
ALIKE = 9  # characters
JOINED = 60  # lines at most that are put together again
_NEW = re.compile(
    r"\s{0,8}(?:[\[(|+│╭╰>]|File \"|Traceback \(|During handling|The above exception|"
    r"[\w.]{1,80}(?:Error|Exception|Warning): |\d{4}-\d\d-\d\d|\{'|[^%|]{0,40}\d{1,3}%\|)"
)
# NCCL's records end with a point or a number; what a narrow terminal left of one does not.
_RECORD = re.compile(r"^.{0,90}ProcessGroupNCCL\.cpp:\d{1,5}\]")
_WHOLE = re.compile(r"[.:!]$|work: -?\d{1,12}$")
_OTHER = re.compile(r"frame #|terminate called|\s{0,4}what\(\)|Exception raised|Fatal Python|\s*$")
_DIGITS = re.compile(r"\d{1,9}")
_RULED = ("|", "+", "│", "╭", "╰", "=", "-", "*")  # tables and rules: as wide as they are, unbroken


def width(texts: Sequence[str]) -> int:
    """The width at which lines were broken, or 0: several lines fill it, none is longer."""
    lengths: Counter[int] = Counter()
    begun: dict[int, set[str]] = {}
    for text in texts:
        for raw in text.split("\n"):
            line = raw.rstrip()
            if len(line) > WIDEST:
                return 0
            if len(line) >= NARROWEST and not line.lstrip().startswith(_RULED) and "%|" not in line:
                lengths[len(line)] += 1
                begun.setdefault(len(line), set()).add(_DIGITS.sub("0", line[:ALIKE]))
    longest = max(lengths, default=0)
    if lengths[longest] < FULL or len(begun[longest]) == 1:  # records that are of one width
        return 0
    return longest


def lines(text: str, columns: int) -> Iterator[tuple[str, int, int]]:
    """(line, line feeds, characters) of ``text``; what was broken at ``columns`` is one line."""
    raws = text.split("\n")
    if columns:
        yield from _joined(iter(raws), columns)
        return
    number = 0
    while number < len(raws):
        more = _parts(raws, number) if "ProcessGroupNCCL.cpp:" in raws[number] else 1
        parts = raws[number : number + more]
        yield "".join(parts), more, sum(len(part) + 1 for part in parts)
        number += more


def _parts(raws: Sequence[str], start: int) -> int:
    """How many lines a record of NCCL's takes, broken at the length of its first line."""
    first = raws[start]
    if not NARROWEST <= len(first) <= WIDEST // 2 or not _RECORD.match(first):
        return 1
    count = 1
    while count < JOINED // 4 and start + count < len(raws):
        before, raw = raws[start + count - 1], raws[start + count]
        ended = _WHOLE.search(before) or len(before) != len(first) or len(raw) > len(first)
        if ended or _NEW.match(raw) or _OTHER.match(raw):
            break
        count += 1
    return count


def _begins(raw: str, before: str) -> bool:
    """A line of its own: as lines begin, or as the one before it did (records of one width)."""
    alike = bool(raw[:ALIKE].strip()) and raw[:ALIKE] == before[:ALIKE]
    return alike or _NEW.match(raw) is not None


def _joined(raws: Iterable[str], columns: int) -> Iterator[tuple[str, int, int]]:
    parts: list[str] = []
    size = 0
    for raw in raws:
        full = parts and len(parts[-1]) == columns and "%|" not in parts[-1]
        if parts and (not full or len(parts) == JOINED or _begins(raw, parts[0])):
            yield "".join(parts), len(parts), size
            parts, size = [], 0
        parts.append(raw.rstrip() if len(raw.rstrip()) <= columns else raw)
        size += len(raw) + 1
    if parts:
        yield "".join(parts), len(parts), size
