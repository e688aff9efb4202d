"""Stand-in rows, and stand-in pictures for media that are not on this disk."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
SIDE = 112
"""Pixels along one side of a stand-in picture."""
ROWS = 24
_COLUMNS = ("images", "image", "rejected_images")


def stand_ins(folder: Path, media: Sequence[str], row: str) -> list[Row]:
    """Rows of each kind in turn: with a picture where the model takes them, and without."""
    pictures = [picture(folder, number) for number in range(4)] if "image" in media else []
    made = []
    for number in range(ROWS):
        seen = bool(pictures) and number % 2 == 0
        question = ("<image>" if seen else "") + f"what is number {number}?"
        messages = [{"role": "user", "content": question}]
        if row != "prompt":
            messages.append({"role": "assistant", "content": f"it is {number}"})
        new: Row = {"messages": messages}
        if row == "pair":
            new["rejected_response"] = "no idea"
        if row == "prompt":
            new["solution"] = str(number)
        if seen:
            new["images"] = [pictures[number // 2 % len(pictures)]]
        made.append(new)
    return made


def here(rows: Sequence[Row], folder: Path, there: Callable[[str], bool]) -> int:
    """Put a stand-in picture for each that is not on this disk, in place; how many there were."""
    missing = 0

    def mended(value: Any) -> Any:
        nonlocal missing
        if isinstance(value, list):
            return [mended(each) for each in value]
        if (
            isinstance(value, dict)
            and isinstance(value.get("path"), str)
            and not value.get("bytes")
        ):
            return mended(value["path"])
        if not isinstance(value, str) or _inline(value) or there(value):
            return value
        missing += 1
        return picture(folder, missing % 4)

    for row in rows:
        for column in _COLUMNS:
            if row.get(column):
                row[column] = mended(row[column])
    return missing


def saved(rows: Sequence[Row], folder: Path) -> None:
    """Write pictures whose bytes stand in the row itself (parquet) to files, in place."""
    count = 0

    def file(value: Any) -> Any:
        nonlocal count
        if isinstance(value, list):
            return [file(each) for each in value]
        content = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(content, bytes):
            return value
        path = folder / f"picture{count}"
        count += 1
        path.write_bytes(content)
        return str(path)

    for row in rows:
        for column in _COLUMNS:
            if row.get(column):
                row[column] = file(row[column])


def _inline(value: str) -> bool:
    return value.startswith("data:") or len(value) > os.pathconf("/", "PC_PATH_MAX")


def picture(folder: Path, number: int) -> str:
    """A PNG that differs in every pixel and from every other one; its path."""
    path = folder / f"stand-in{number}.png"
    if path.exists():
        return str(path)
    width = SIDE * 3
    noise = _noise(number, SIDE * width)
    lines = b"".join(b"\0" + noise[line * width : (line + 1) * width] for line in range(SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines)) + _chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return str(path)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _noise(number: int, count: int) -> bytes:
    seed, made = 12345 + number, bytearray()
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        made.append(seed >> 16 & 255)
    return bytes(made)
