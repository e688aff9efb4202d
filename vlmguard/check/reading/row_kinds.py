"""Kinds of rows in local data files, by their columns: nothing is decoded, no image is opened."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from vlmguard.check.reading.named_files import Files, Unreadable
from vlmguard.check.shell.state import known

SECONDS, BYTES, ALTOGETHER = 0.5, 64 << 20, 3.0
"""Reading ends after so long, or so much of one file; the rest is told as not seen."""
ROW, CHUNK = 4 << 20, 1 << 20
"""Characters that one row may have, and that are read at once."""
_COLUMNS = {"image": ("image", "images", "img", "image_path", "image_paths", "pixel_values"),
            "video": ("video", "videos"), "audio": ("audio", "audios")}  # fmt: skip
_TAGS = {"image": re.compile(r"<(image|img)>|<\|image_pad\|>"), "video": re.compile("<video>"),
         "audio": re.compile("<audio>")}  # fmt: skip
_PARTS = {"image": "image", "image_url": "image", "video": "video", "video_url": "video",
          "audio": "audio", "audio_url": "audio", "input_audio": "audio"}  # fmt: skip
_TEXTS = ("messages", "conversations", "prompt", "query", "chosen", "rejected", "text")


@dataclass(frozen=True)
class Rows:
    """Attributes:
    kinds: "text", "image", "video", "audio", "image+video", …; empty if nothing is known.
    complete: whether every row was seen.
    seen: how many were.
    missing: local files that are not here.
    """

    kinds: frozenset[str] = frozenset()
    complete: bool = False
    seen: int = 0
    missing: tuple[str, ...] = ()

    def __or__(self, other: Rows) -> Rows:
        both = self.complete and other.complete
        missing = self.missing + other.missing
        return Rows(self.kinds | other.kinds, both, self.seen + other.seen, missing)


def kind(row: Mapping[str, Any]) -> str:
    """The kind of one row, from its columns and the parts of its messages."""
    found = {
        media
        for media, names in _COLUMNS.items()
        if any(row.get(name) not in (None, "", [], {}, "[]") for name in names)
    }
    for name in _TEXTS:
        if name in row:
            found |= _in(row[name], 0)
    return "+".join(sorted(found)) or "text"


def _in(value: Any, depth: int) -> set[str]:
    """Media in messages: parts of a type, or tags in their text."""
    if isinstance(value, str):
        return {media for media, tag in _TAGS.items() if tag.search(value[:100_000])}
    found: set[str] = set()
    if depth < 6 and isinstance(value, list):
        for item in value:
            found |= _in(item, depth + 1)
    elif depth < 6 and isinstance(value, dict):
        if value.get("type") in _PARTS:
            return {_PARTS[value["type"]]}
        for name in ("content", "value", "text"):
            found |= _in(value.get(name), depth + 1)
    return found


def of_file(path: str) -> Rows:
    """Rows of a .jsonl, .json, .csv or .parquet file. Raises `Unreadable`."""
    ending = os.path.splitext(path)[1]
    try:
        if ending == ".jsonl":
            return _counted(map(json.loads, _lines(path)), _small(path))
        if ending == ".json":
            return _json(path)
        if ending in (".csv", ".tsv"):
            with open(path, newline="", encoding="utf-8") as file:
                read = csv.DictReader(_capped(file), delimiter="," if ending == ".csv" else "\t")
                return _counted(read, _small(path))
        if ending == ".parquet":
            return _parquet(path)
    except (OSError, ValueError, UnicodeDecodeError, csv.Error) as error:
        raise Unreadable(f"{path}: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise Unreadable(f"{path}: nested too deeply") from None
    return Rows()


class _TooLong(Exception):
    """A row longer than `ROW`."""


def _counted(rows: Iterable[Any], whole: bool) -> Rows:
    found: set[str] = set()
    seen = 0
    until = time.monotonic() + SECONDS
    try:
        for row in rows:
            if isinstance(row, dict):
                found.add(kind(row))
                seen += 1
            if time.monotonic() > until:
                whole = False
                break
    except _TooLong:
        whole = False
    return Rows(frozenset(found), whole, seen)


def _small(path: str) -> bool:
    return os.path.getsize(path) <= BYTES


def _capped(file: TextIO) -> Iterator[str]:
    """Lines up to `BYTES` in all. Raises `_TooLong`."""
    used = 0
    while used <= BYTES and (line := file.readline(ROW)):
        if len(line) == ROW:
            raise _TooLong
        used += len(line)
        yield line


def _lines(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:
        yield from (line for line in _capped(file) if line.strip())


def _json(path: str) -> Rows:
    with open(path, encoding="utf-8") as file:
        head = file.read(1)
        while head.isspace():
            head = file.read(1)
        if head == "[":
            return _counted(_items(file), _small(path))
        if os.path.getsize(path) > ROW:
            return Rows()
        data = json.loads(head + file.read())
    data = data.get("data", [data]) if isinstance(data, dict) else data
    return _counted(data if isinstance(data, list) else (), True)


def _items(file: TextIO) -> Iterator[Any]:
    """Rows of an array, one by one; its bracket has been read. Raises `_TooLong`."""
    decode = json.JSONDecoder().raw_decode
    text, at, used = "", 0, 0
    while used <= BYTES:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if text[at : at + 1] == "]":
            return
        try:
            row, at = decode(text, at)
        except ValueError:
            more = file.read(CHUNK)
            if len(text) - at > ROW:
                raise _TooLong from None
            if not more:
                raise
            used += len(more)
            text, at = text[at:] + more, 0
        else:
            yield row


def _parquet(path: str) -> Rows:
    """Only what the footer tells: which columns there are."""
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        return Rows()
    file = parquet.ParquetFile(path)
    names = set(file.schema_arrow.names)
    found = {media for media, columns in _COLUMNS.items() if names & set(columns)}
    count = file.metadata.num_rows
    return Rows(frozenset({"+".join(sorted(found)) or "text"}), count == 0, count)


def of(names: Iterable[str], files: Files) -> tuple[Rows, list[str]]:
    """Rows of all data sets that a command names, and what is not known of them.

    Raises:
        Unreadable: a local file that is damaged, or that has no row.
    """
    total: Rows | None = None
    doubts: list[str] = []
    until = time.monotonic() + ALTOGETHER
    for name in names:
        bare = re.sub(r"#\d+$", "", name)
        bare = re.sub(r"^(hf|ms)::", "", bare)
        path = files.path(bare) if known(bare) else ""
        if not known(name):
            doubts.append("a data set whose name is not known")
            found = Rows()
        elif os.path.isfile(path):
            found = of_file(path) if time.monotonic() < until else Rows()
            if found.complete and not found.seen:
                raise Unreadable(f"{bare}: there is no row in it that can be read")
            if not found.complete:
                seen = f"only {found.seen} of its rows" if found.seen else "none of its rows"
                doubts.append(f"{bare}: {seen} were looked at")
        elif os.path.isdir(path):
            found = _folder(path, until)
            doubts.append(f"{bare}: a folder; the kinds of its rows are known in part")
        else:
            local = bare.startswith((".", "/", "~")) or bare.endswith((".jsonl", ".json", ".csv"))
            found = Rows(missing=(bare,) if local and files.path(bare) not in files.made else ())
            doubts.append(f"{bare}: not on this disk, so the kinds of its rows are not known")
        total = found if total is None else total | found
    return total or Rows(), doubts


def _folder(path: str, until: float) -> Rows:
    names = sorted(n for n in os.listdir(path) if n.endswith((".jsonl", ".json", ".csv")))
    found = [of_file(os.path.join(path, name)) for name in names[:20]
             if name not in ("dataset_infos.json", "dataset_info.json", "state.json")
             and time.monotonic() < until]  # fmt: skip
    made = Rows()
    for one in found:
        made = made | one
    return Rows(made.kinds, False, made.seen)
