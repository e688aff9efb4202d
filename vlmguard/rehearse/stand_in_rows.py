"""Stand-in rows, and stand-in pictures for media that are not on this disk."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vlmguard.rehearse import training_rows
from vlmguard.rehearse.request import Request

Row = dict[str, Any]
SIDE = 112
"""Pixels along one side of a stand-in picture."""
ROWS = 24
_COLUMNS = ("images", "image", "rejected_images")
_MOVING = ("videos", "video", "audios", "audio", "rejected_videos", "rejected_audios")
_SAID = ("messages", "conversations", "prompt", "chosen", "rejected", "completion",
         "rejected_messages", "positive_messages", "negative_messages", "query")  # fmt: skip
_PARTS = {"image": ("image", "image_url", "url", "path"), "image_url": ("image_url", "url"),
          "video": ("video", "video_url", "url", "path"), "video_url": ("video_url", "url"),
          "audio": ("audio", "audio_url", "url", "path"),
          "audio_url": ("audio_url", "url")}  # fmt: skip
"""A message's parts by their type → where the file is named."""
_TAGGED = re.compile(r"<(img|video|audio)>([^<]+)</\1>")
"""How ms-swift takes a file in the midst of a text."""
_PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")


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
        if isinstance(value, dict) and isinstance(value.get("url"), str):
            return {**value, "url": mended(value["url"])}
        if not isinstance(value, str) or _inline(value) or there(value):
            return value
        missing += 1
        return picture(folder, missing % 4)

    for row in rows:
        for column in _COLUMNS:
            if row.get(column):
                row[column] = mended(row[column])
        for column in _MOVING:  # LLaMA-Factory reads a list of images as a video
            if isinstance(row.get(column), list):
                row[column] = [[mended(one) if _pictured(one) else one for one in each]
                               if isinstance(each, list) else each
                               for each in row[column]]  # fmt: skip
        for column in _SAID:
            if row.get(column):
                row[column] = _parts(row[column], "image", mended)
    return missing


def whole(rows: Sequence[Row], there: Callable[[str], bool]) -> list[Row]:
    """Those whose videos and sounds are all on this disk: nothing stands in for one."""
    return [row for row in rows if not _lacks(row, there)]


def _lacks(row: Row, there: Callable[[str], bool]) -> bool:
    gone = False

    def look(value: Any) -> Any:
        nonlocal gone
        if isinstance(value, (list, tuple)):
            for each in value:
                look(each)
        elif isinstance(value, dict):
            if not value.get("bytes"):
                look(value.get("path") or value.get("url"))
        elif isinstance(value, str) and value and not _inline(value):
            gone = gone or not there(value)
        return value

    for column in _MOVING:
        look(row.get(column))
    for column in _SAID:
        for kind in ("video", "audio"):
            _parts(row.get(column), kind, look)
    return gone


def _parts(value: Any, kind: str, change: Callable[[Any], Any]) -> Any:
    """What is said, with each file of this kind changed."""
    if isinstance(value, list):
        return [_parts(each, kind, change) for each in value]
    if isinstance(value, str):
        tag = "img" if kind == "image" else kind
        return _TAGGED.sub(
            lambda m: f"<{tag}>{change(m[2])}</{tag}>" if m[1] == tag else m[0], value
        )
    if not isinstance(value, dict):
        return value
    told = str(value.get("type") or "")
    if told in (kind, f"{kind}_url"):
        return {key: change(one) if one and key in _PARTS[told] else one
                for key, one in value.items()}  # fmt: skip
    return {key: _parts(one, kind, change) if key in ("content", "value") else one
            for key, one in value.items()}  # fmt: skip


def _pictured(value: Any) -> bool:
    return isinstance(value, str) and value.lower().endswith(_PICTURES)


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


def evaluated(request: Request, trained: training_rows.Sample, place: Path) -> Path:
    """Rows to evaluate on: of the user's own files, else as those that are trained on."""
    sample = trained
    if request.evaluated:
        sample = training_rows.sample(request.evaluated, shuffled=True)
        root = request.media_root or request.env.get("ROOT_IMAGE_DIR") or request.folder
        apart = place / "evaluated"
        apart.mkdir()
        saved(sample.rows, apart)
        here(sample.rows, apart, lambda name: os.path.exists(os.path.join(root, name)))
    return training_rows.write(
        place / "rows-evaluated.jsonl", training_rows.unlike(sample, request.ranks)
    )
