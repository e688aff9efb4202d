"""A page as bytes, small enough for the rendezvous store: numbers in rows lie beside the JSON."""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vlmguard.ledger.account import Page

_BLOCK = "\x00block"
_PLAIN = frozenset((int, float, bool, str, type(None)))
_TABLE = 64
"""Rows from which a block is a table that can be thinned."""


@dataclass(frozen=True)
class Block:
    """Numbers in rows, not yet a list.

    Attributes:
        code: as of `array.array`: "f", "d", "q", "b".
        data: native bytes.
    """

    code: str
    shape: tuple[int, ...]
    data: bytes


def pack(page: Page) -> bytes:
    """``page``, in which `Block`s may stand for lists."""
    parts: list[bytes] = []

    def leave(block: Block) -> Any:
        parts.append(block.data)
        return {_BLOCK: [block.code, list(block.shape), len(block.data)]}

    header = json.dumps(walk(page, leave), separators=(",", ":")).encode()
    return zlib.compress(struct.pack("<I", len(header)) + header + b"".join(parts), 1)


def unpack(data: bytes) -> Page:
    """The page again, with lists."""
    raw = zlib.decompress(data)
    (size,) = struct.unpack_from("<I", raw)
    place = 4 + size

    def take(found: dict[str, Any]) -> Any:
        nonlocal place
        if _BLOCK not in found:
            return found
        code, shape, length = found[_BLOCK]
        place += length
        return rows(Block(code, tuple(shape), raw[place - length : place]))

    page: Page = json.loads(raw[4:place], object_hook=take)
    return page


def plain(page: Page) -> Page:
    """``page`` with lists for its blocks, without going through bytes."""
    found: Page = walk(page, rows)
    return found


def rows(block: Block) -> Any:
    """The lists that a block stands for."""
    numbers = array(block.code)
    numbers.frombytes(block.data)
    found: Any = numbers.tolist()
    for size in reversed(block.shape[1:]):
        found = [found[at : at + size] for at in range(0, len(found), size)] if size else []
    return found if block.shape else found[0]


def thin(page: Page, step: int) -> Page:
    """``page`` with every ``step``-th row of its tables; the others are not a number, which is
    "cannot tell"."""

    def some(block: Block) -> Block:
        if block.code not in "fd" or len(block.shape) < 2 or block.shape[0] < _TABLE:
            return block
        size = len(block.data) // block.shape[0]
        nan = array(block.code, [float("nan")]).tobytes()
        gap = nan * (size // len(nan))
        kept = (
            block.data[at * size : (at + 1) * size] if at % step == 0 else gap
            for at in range(block.shape[0])
        )
        return Block(block.code, block.shape, b"".join(kept))

    found: Page = walk(page, some)
    return {**found, "thinned": step}


def size(page: Page) -> int:
    """Bytes of its blocks."""
    total = 0

    def count(block: Block) -> None:
        nonlocal total
        total += len(block.data)

    walk(page, count)
    return total


def walk(found: Any, change: Callable[[Any], Any], kind: type = Block) -> Any:
    """``found``, a page or a part of one, with what ``change`` makes of each ``kind`` in it."""
    if isinstance(found, kind):
        return change(found)
    if isinstance(found, Mapping):
        return {str(key): walk(value, change, kind) for key, value in found.items()}
    if isinstance(found, (list, tuple, set, frozenset)):
        if _PLAIN.issuperset(map(type, found)):
            return list(found)
        return [walk(value, change, kind) for value in found]
    return found
