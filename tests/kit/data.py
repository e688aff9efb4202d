"""Tiny deterministic data sets with real PNG images and videos, as ms-swift reads them: JSON lines.

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
    videos = [_y4m(out / f"{number}.y4m", number) for number in range(3)]

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

    def phases_3(row: int) -> Row:
        """The same for three ranks."""
        return text(row) if row // 3 % 2 else image(row)

    def crossed(row: int) -> Row:
        """Accumulated in twos: each rank has both kinds in a step, never the same at a time."""
        return text(row) if (row // 2 + row) % 2 else image(row)

    def literal(row: int) -> Row:
        """Rank 1 trains on text that only talks about a placeholder."""
        if row % 2 == 0:
            return image(row)
        return _row("What does <|image_pad|> mean?", f"a placeholder {row}", [])

    def both(row: int) -> Row:
        """An image and a video in one sample."""
        chosen = [images[row % len(images)]]
        video = [videos[row % len(videos)]]
        return {**_row("<image><video>what?", f"color {row}", chosen), "videos": video}

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
    _write(out / "phases_3.jsonl", phases_3)
    _write(out / "crossed.jsonl", crossed)
    _write(out / "literal.jsonl", literal)
    _write(out / "both.jsonl", both)
    _write(out / "several.jsonl", several)
    _write(out / "pairs.jsonl", pairs)
    _write(out / "broken.jsonl", broken)
    _write(out / "dpo_pairs.jsonl", lambda row: _rejected(pairs(row)))
    _write(out / "dpo.jsonl", lambda row: _rejected(image(row)))
    _write(out / "dpo_several.jsonl", lambda row: _rejected(several(row)))
    _write(out / "dpo_both.jsonl", lambda row: _rejected(both(row)))
    _write(out / "dpo_mixed.jsonl", lambda row: _rejected(mixed(row)))
    _write(out / "grpo.jsonl", lambda row: _question(image(row)))
    _write(out / "grpo_mixed.jsonl", lambda row: _question(mixed(row)))


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


def _noise(number: int, count: int) -> bytes:
    """Bytes that differ for every number and are the same in every run."""
    seed, made = 12345 + number, bytearray()
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        made.append(seed >> 16 & 255)
    return bytes(made)


def _y4m(path: Path, number: int, side: int = 56, frames: int = 2) -> str:
    """An uncompressed video of one frame a second, without a video library."""
    size = side * side * 3
    noise = _noise(100 + number, size * frames)
    shots = (b"FRAME\n" + noise[shot * size : (shot + 1) * size] for shot in range(frames))
    path.write_bytes(b"YUV4MPEG2 W%d H%d F1:1 Ip A1:1 C444\n" % (side, side) + b"".join(shots))
    return str(path.resolve())


def _png(path: Path, number: int, side: int = 56) -> str:
    """A picture that differs in every pixel and from every other one, without an image library."""
    noise, width = _noise(number, side * side * 3), side * 3
    rows = b"".join(b"\0" + noise[row * width : (row + 1) * width] for row in range(side))

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content + chunk(b"IEND", b""))
    return str(path.resolve())
