"""Reads one log of any size once, front to back, and keeps only what may matter.

That is: its head (what the run said of itself), its tail (how it ended), and a window of 8 KB
round every hit of a known string. Of a string that hits often, the first and last windows are
kept. Memory is bounded whatever the log holds: 1 MB blocks, and windows as counted below.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from vlmguard.explain.matcher import Find

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


@dataclass
class Reading:
    """What was kept of one log.

    Attributes:
        size, lines: bytes and line feeds in all.
        pieces: what was kept, in order, without overlap.
        hits: how often each string was seen.
    """

    size: int = 0
    lines: int = 0
    pieces: list[Piece] = field(default_factory=list)
    hits: Counter[bytes] = field(default_factory=Counter)


class _Kept:
    """The first and last windows of one string."""

    def __init__(self) -> None:
        self.first: list[Piece] = []
        self.last: deque[Piece] = deque(maxlen=LAST)

    def add(self, piece: Piece) -> None:
        if len(self.first) < FIRST:
            self.first.append(piece)
        else:
            self.last.append(piece)


def read(
    blocks: Iterable[bytes],
    strings: Sequence[bytes],
    find: Find,
    head_size: int = HEAD,
    tail_size: int = TAIL,
) -> Reading:
    """Read ``blocks``; a string that crosses two of them is found, a window too."""
    reading = Reading()
    kept: dict[int, _Kept] = {}
    counts = [0] * len(strings)
    head = bytearray()
    tail: deque[Piece] = deque()
    newest: list[Piece | None] = [None] * len(strings)
    window: Piece | None = None
    for buffer in _buffers(blocks):
        data, at, done, until = buffer
        if len(head) < head_size:
            head += data[done : min(until, done + head_size - len(head))]
        counted, line = done, reading.lines + 1
        for start, number in find(data):
            if start < done:
                continue
            if start >= until:
                break
            counts[number] += 1
            if window is None or at + start >= window.at + BEFORE + AFTER // 2:
                begin = max(start - BEFORE, 0)
                if begin >= counted:
                    line += data.count(b"\n", counted, begin)
                else:
                    line -= data.count(b"\n", begin, counted)
                counted = begin
                window = Piece(at + begin, line, data[begin : start + AFTER])
            if newest[number] is not window:
                newest[number] = window
                kept.setdefault(number, _Kept()).add(window)
        _lengthen(tail, Piece(at + done, reading.lines + 1, data[done:until]), tail_size)
        reading.lines += data.count(b"\n", done, until)
        reading.size = at + until
    reading.hits.update({strings[n]: count for n, count in enumerate(counts) if count})
    windows = {id(p): p for k in kept.values() for p in (*k.first, *k.last)}.values()
    reading.pieces = list(
        _merged([Piece(0, 1, bytes(head)), *windows, *_shortened(tail, tail_size)])
    )
    return reading


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


def _lengthen(tail: deque[Piece], piece: Piece, size: int) -> None:
    tail.append(piece)
    while sum(len(p.data) for p in tail) - len(tail[0].data) >= size:
        tail.popleft()


def _shortened(tail: deque[Piece], size: int) -> Iterator[Piece]:
    """The last ``size`` bytes."""
    extra = sum(len(p.data) for p in tail) - size
    for piece in tail:
        cut = min(max(extra, 0), len(piece.data))
        extra -= cut
        lines = piece.data.count(b"\n", 0, cut)
        yield Piece(piece.at + cut, piece.line + lines, piece.data[cut:])


def _merged(pieces: list[Piece]) -> Iterator[Piece]:
    current: list[bytes] = []
    first = end = -1
    line = 1
    for piece in sorted(pieces, key=lambda p: (p.at, -p.end)):
        if not piece.data:
            continue
        if current and piece.at <= end:
            if piece.end > end:
                current.append(piece.data[end - piece.at :])
                end = piece.end
            continue
        if current:
            yield Piece(first, line, b"".join(current))
        current, first, end, line = [piece.data], piece.at, piece.end, piece.line
    if current:
        yield Piece(first, line, b"".join(current))
