"""Tiny deterministic data sets with real PNG images, as ms-swift reads them: JSON lines.

With two ranks, one sample each and no shuffling, row 2n goes to rank 0 and row 2n + 1 to rank 1.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROWS = 16
Row = dict[str, Any]


def build(out: Path) -> None:
    """Write all data sets as `out/NAME.jsonl`, and their images."""
    out.mkdir(parents=True, exist_ok=True)
    images = [_png(out / f"{number}.png", number) for number in range(6)]

    def image(row: int, count: int = 1) -> Row:
        chosen = [images[(row + each) % len(images)] for each in range(count)]
        return _row("<image>" * count + "what?", f"color {row}", chosen)

    def text(row: int) -> Row:
        return _row("hello there", f"text number {row}", [])

    def mixed(row: int) -> Row:
        """Rank 0 has an image, rank 1 has none."""
        return text(row) if row % 2 else image(row)

    def phases(row: int) -> Row:
        """Both ranks have an image in step 1, neither has one in step 2, and so on."""
        return text(row) if row // 2 % 2 else image(row)

    def broken(row: int) -> Row:
        """Row 2 has a file that is no picture."""
        if row != 2:
            return image(row)
        return _row("<image>what?", f"color {row}", [_garbage(out / "no.png")])

    def pairs(row: int) -> Row:
        return image(row, 2)

    def several(row: int) -> Row:
        return image(row, 2)

    _write(out / "image.jsonl", image)
    _write(out / "text.jsonl", text)
    _write(out / "mixed.jsonl", mixed)
    _write(out / "phases.jsonl", phases)
    _write(out / "several.jsonl", several)
    _write(out / "pairs.jsonl", pairs)
    _write(out / "broken.jsonl", broken)
    _write(out / "dpo_pairs.jsonl", lambda row: _rejected(pairs(row)))
    _write(out / "dpo.jsonl", lambda row: _rejected(image(row)))
    _write(out / "dpo_several.jsonl", lambda row: _rejected(several(row)))
    _write(out / "grpo.jsonl", lambda row: _question(image(row)))


def _row(question: str, answer: str, images: Sequence[str]) -> Row:
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
    ]
    return {"messages": messages, "images": list(images)} if images else {"messages": messages}


def _rejected(row: Row) -> Row:
    return {**row, "rejected_response": "bad"}


def _question(row: Row) -> Row:
    return {**row, "messages": row["messages"][:1], "solution": "a"}


def _write(path: Path, make: Callable[[int], Row]) -> None:
    lines = (json.dumps(make(row)) + "\n" for row in range(ROWS))
    path.write_text("".join(lines), encoding="utf-8")


def _garbage(path: Path) -> str:
    path.write_bytes(b"no picture")
    return str(path.resolve())


def _png(path: Path, number: int, side: int = 56) -> str:
    """A picture that differs in every pixel and from every other one, without an image library."""
    seed = 12345 + number
    rows = bytearray()
    for _ in range(side):
        rows.append(0)
        for _ in range(side * 3):
            seed = (seed * 1103515245 + 12345) % 2**31
            rows.append(seed >> 16 & 255)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(rows)))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content + chunk(b"IEND", b""))
    return str(path.resolve())
