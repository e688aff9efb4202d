"""Reads one log of any size once, front to back, and keeps only what may matter.

That is: its head (what the run said of itself), its tail (how it ended), and a window of 8 KB
round every hit of a known string. Of a string that hits often, the first and last windows are
kept. Memory is bounded whatever the log holds: 1 MB blocks, and windows as counted below.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Find = Callable[[bytes], list[tuple[int, int]]]  # block → (start, number of the string), by start


def finder(strings: Sequence[bytes], plain: bool = False) -> Find:
    """A function that finds all occurrences of the strings, overlapping ones too; of two that
    begin at one place the shorter may stand for both."""
    if not plain:
        try:
            return _compiled(tuple(strings))
        except ImportError:
            pass
    return _plain(strings)


@functools.cache
def _compiled(strings: tuple[bytes, ...]) -> Find:
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    automaton = BytesAhoCorasick(list(strings), implementation=Implementation.ContiguousNFA)

    def find(block: bytes) -> list[tuple[int, int]]:
        matches = automaton.find_matches_as_indexes(block, overlapping=True)
        return sorted([(start, number) for number, start, _ in matches])

    return find


def _plain(strings: Sequence[bytes]) -> Find:
    root: dict[int, Any] = {}
    for string in sorted(strings, key=len):
        node = root
        for byte in string:
            if node.get(byte) == {}:
                break  # a shorter string ends here
            node = node.setdefault(byte, {})
    numbers = {string: number for number, string in enumerate(strings)}
    search = re.compile(_expression(root)).search

    def find(block: bytes) -> list[tuple[int, int]]:
        hits = []
        match = search(block)
        while match is not None:
            hits.append((match.start(), numbers[match[0]]))
            match = search(block, match.start() + 1)
        return hits

    return find


def _expression(node: dict[int, Any]) -> bytes:
    """One expression for all strings below ``node``, which share their beginnings."""
    ways = [re.escape(bytes([byte])) + _expression(below) for byte, below in sorted(node.items())]
    return b"".join(ways) if len(ways) < 2 else b"(?:" + b"|".join(ways) + b")"


BLOCK = 1 << 20
HEAD = 512 << 10
TAIL = 384 << 10
BEFORE, AFTER = 2048, 6144  # a window: 8 KB
FIRST, LAST = 10, 20  # windows kept of one string


@dataclass(frozen=True)
class Piece:
    """Part of a log: where it starts (byte, line number from 1), and its bytes."""

    at: int
    line: int
    data: bytes

    @property
    def end(self) -> int:
        return self.at + len(self.data)


def read(
    blocks: Iterable[bytes],
    find: Find,
    head_size: int = HEAD,
    tail_size: int = TAIL,
) -> list[Piece]:
    """What is kept of ``blocks``, in order, without overlap; a string that crosses two of them is
    found, a window too."""
    lines = 0
    windows: dict[int, tuple[list[Piece], deque[Piece]]] = {}  # of each string: first, last
    newest: dict[int, Piece] = {}
    head, tail = bytearray(), deque[Piece]()
    window = Piece(-AFTER, 0, b"")
    for data, at, done, until in _buffers(blocks):
        head += data[done : min(until, done + max(head_size - len(head), 0))]
        counted, line = done, lines + 1
        for start, number in find(data):
            if not done <= start < until:
                continue
            if at + start >= window.at + BEFORE + AFTER // 2 or not window.line:
                begin = max(start - BEFORE, 0)
                forth = data.count(b"\n", counted, begin)
                line += forth if begin >= counted else -data.count(b"\n", begin, counted)
                counted = begin
                window = Piece(at + begin, line, data[begin : start + AFTER])
            if newest.get(number) is not window:
                newest[number] = window
                first, last = windows.setdefault(number, ([], deque(maxlen=LAST)))
                (first if len(first) < FIRST else last).append(window)
        tail.append(Piece(at + done, lines + 1, data[done:until]))
        while sum(len(p.data) for p in tail) - len(tail[0].data) >= tail_size:
            tail.popleft()
        lines += data.count(b"\n", done, until)
    kept = {id(p): p for first, last in windows.values() for p in (*first, *last)}.values()
    pieces = [Piece(0, 1, bytes(head)), *kept, *_shortened(tail, tail_size)]
    return list(_merged(pieces))


def _buffers(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int, int, int]]:
    """(bytes, offset of the first, hits before this are done, hits from this on come later)."""
    carry, at, done = b"", 0, 0
    for block in blocks:
        data = carry + block
        until = len(data) - AFTER
        if until <= done:
            carry = data
            continue
        yield data, at, done, until
        cut = max(until - BEFORE, 0)
        carry, at, done = data[cut:], at + cut, until - cut
    yield carry, at, done, len(carry)


def _shortened(tail: deque[Piece], size: int) -> Iterator[Piece]:
    """The last ``size`` bytes."""
    extra = sum(len(p.data) for p in tail) - size
    for piece in tail:
        cut = min(max(extra, 0), len(piece.data))
        extra -= cut
        lines = piece.data.count(b"\n", 0, cut)
        yield Piece(piece.at + cut, piece.line + lines, piece.data[cut:])


def _merged(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces in order, those that overlap as one."""
    parts: list[bytes] = []
    at, line, end = 0, 1, -1
    for piece in sorted((p for p in pieces if p.data), key=lambda p: (p.at, -p.end)):
        if piece.at > end:
            if parts:
                yield Piece(at, line, b"".join(parts))
            parts, at, line, end = [], piece.at, piece.line, piece.at
        if piece.end > end:
            parts.append(piece.data[end - piece.at :])
            end = piece.end
    if parts:
        yield Piece(at, line, b"".join(parts))
