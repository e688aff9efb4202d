"""List the rows of a data set that would break a training, by their numbers.

Example: `vlmguard rows --images data.jsonl`. Exit status: 0, all rows are sound; 1, some are not;
2, a file cannot be read.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from vlmguard.core.words import Parser

Row = dict[str, Any]
MEDIA = ("images", "image", "videos", "video")
VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm")
NARROW, HUGE = 200, 50_000_000  # long side / short side, as Qwen-VL's processors allow; pixels
SHOWN = 20  # rows
_TOKENS = re.compile(
    r"<image>|<video>|<[|](?:image|video)_pad[|]>|<[|]vision_start[|]>(?!<)|<IMG_CONTEXT>"
    r"|<image_soft_token>|\"type\": \"(?:image|video)(?:_url)?\""
)


def main(words: Sequence[str] | None = None) -> int:
    """Check the files. See the module for the exit status."""
    parser = Parser("rows", __doc__, formatter_class=argparse.HelpFormatter)
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help="a JSON or JSONL file of rows")
    add("--images", action="store_true", help="open every image, and name those that fail")
    add("--root", metavar="FOLDER", default=".", help="where relative paths of images start")
    add("--longest", metavar="N", type=int, help="name rows with more than N characters of text")
    add("--tokenizer", metavar="FOLDER", help="a model's folder: --longest then counts tokens")
    add("--kept", metavar="OUT", help="write the sound rows to this file; only with one FILE")
    add("--blank", metavar="OUT", help="write all rows of one FILE here, text with a blank image")
    asked = parser.read(words)
    if len(asked.files) > 1 and (asked.kept or asked.blank):
        parser.error("--kept and --blank write the rows of one FILE: give one at a time")
    bad = 0
    for name in asked.files:
        try:
            bad += _file(Path(name), asked)
        except (OSError, ImportError) as error:
            parser.error(f"{name}: {getattr(error, 'strerror', '') or error}")
    return 1 if bad else 0


def _file(path: Path, asked: argparse.Namespace) -> int:
    """How many findings a file has; prints them, writes what was asked for."""
    sound, bad, rows, asked.encode = [], [], list(_rows(path)), str
    if asked.tokenizer:
        text = Path(asked.tokenizer, "tokenizer.json").read_text(encoding="utf-8")
        asked.encode = import_module("tokenizers").Tokenizer.from_str(text).encode
    places: dict[str, dict[str, int]] = {}
    for number, row in rows:
        wrong = [row] if isinstance(row, str) else list(_wrong(row, asked))
        bad += [f"row {number}: {one}" for one in wrong]
        sound += [] if wrong else [row]
        for place, kind in _types(row, ""):
            places.setdefault(place, {}).setdefault(kind, number)
    mixed = {place: kinds for place, kinds in places.items() if len(kinds) > 1}
    more = [f"… and {len(bad) - SHOWN} more"] * (len(bad) > SHOWN)
    print(f"{path}: {len(rows)} rows, {len(bad)} findings", *bad[:SHOWN], *more, sep="\n  ")
    print("  keys:", *(place[1:] for place in places if place.count("/") == 1))
    for place, kinds in mixed.items():
        began = ", ".join(f"{kind} from row {number} on" for kind, number in kinds.items())
        print(f"  several types: {place}: {began}")
    if asked.kept:
        _write(Path(asked.kept), sound)
    if asked.blank:
        _blank([row for _, row in rows if not isinstance(row, str)], Path(asked.blank))
    return len(bad) + len(mixed)


def _rows(path: Path) -> Iterator[tuple[int, Row | str]]:
    """(number from 1, row), or (number, why it is none). A file is a JSON list or JSON lines."""
    text = path.read_text(encoding="utf-8", errors="replace")
    whole = text.lstrip()[:1] == "["
    for number, part in enumerate([text] if whole else text.split("\n"), 1):
        try:
            found = json.loads(part) if part.strip() else []
        except ValueError as error:
            yield number, f"no JSON: {error}"
            continue
        for n, row in enumerate(found if whole else [found] if part.strip() else [], number):
            yield n, row if isinstance(row, dict) else f"no object, but {type(row).__name__}"


def _media(row: Row) -> list[Any]:
    """The row's images and videos: paths, or objects that hold one."""
    values = [row.get(key) or [] for key in MEDIA]
    return [one for v in values for one in ([v] if isinstance(v, str | dict) else v)]


def _turns(row: Row) -> list[tuple[str, Row]]:
    """The row's messages, by either of their two usual names, each with its role."""
    found = row.get("messages") or row.get("conversations") or []
    turns = [turn for turn in found if isinstance(turn, dict)] if isinstance(found, list) else []
    roles = {"human": "user", "gpt": "assistant"}
    names = [str(turn.get("role", turn.get("from", ""))) for turn in turns]
    return [(roles.get(role, role), turn) for role, turn in zip(names, turns, strict=True)]


def _wrong(row: Row, asked: argparse.Namespace) -> Iterator[str]:
    """Placeholders that are not as many as the media; too long; roles that do not take turns."""
    text = json.dumps({k: v for k, v in row.items() if k not in MEDIA}, ensure_ascii=False)
    tokens, media = _TOKENS.findall(text), _media(row)
    if len(tokens) != len(media):
        shown = " ".join(dict.fromkeys(tokens)) or "none"
        yield f"{len(tokens)} placeholders ({shown}), {len(media)} images or videos"
    said = " ".join(str(turn.get("content", turn.get("value"))) for _, turn in _turns(row)) or text
    if asked.longest and (size := len(asked.encode(said))) > asked.longest:
        yield f"{size} {'tokens' if asked.tokenizer else 'characters'}, without what images become"
    roles = [role for role, _ in _turns(row) if role not in ("system", "tool")]
    if twice := [one for one, after in pairwise(roles) if one == after]:
        yield f"two turns of {twice[0]}"
    if roles and roles[0] != "user":
        yield f"the first turn is {roles[0]}'s"
    if asked.images:
        yield from _images(row, Path(asked.root))


def _images(row: Row, root: Path) -> Iterator[str]:
    """Images that are not there, cannot be read, or are refused for their shape. Needs Pillow."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    for one in _media(row):
        name = (one.get("path") or one.get("url")) if isinstance(one, dict) else one
        if not isinstance(name, str) or "://" in name or name.lower().endswith(VIDEOS):
            continue
        try:
            with Image.open(root / name) as image:
                image.load()
                short, long = sorted(image.size)
        except Exception as error:  # each decoder raises its own
            yield f"{root / name}: {error}"
            continue
        if shape := "too narrow" if long > NARROW * short else "very large" * (short * long > HUGE):
            yield f"{root / name}: {short} × {long} pixels, {shape}"


def _types(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """(place, type) of everything in a row: a table's column holds one type."""
    if value is not None and place:
        yield place, type(value).__name__
    below = [("[]", one) for one in value] if isinstance(value, list) else []
    below += value.items() if isinstance(value, dict) else ()
    for key, one in below:
        yield from _types(one, f"{place}/{key}")


def _write(path: Path, some: Sequence[Row | str]) -> None:
    path.write_text(json.dumps(some, ensure_ascii=False), encoding="utf-8")
    print(f"wrote {path}: {len(some)} rows")


def _blank(some: list[Row], to: Path) -> None:
    """Each row of text alone gets a blank image before its question, where no label sees it."""
    from PIL import Image

    picture = str(to.with_suffix(".png").absolute())
    Image.new("RGB", (336, 336)).save(picture)
    one, changed = any(isinstance(row.get("image"), str) for row in some), 0
    for row in some:
        turn = next((turn for role, turn in _turns(row) if role == "user"), None)
        if _media(row) or turn is None:
            continue
        key, changed = "content" if "content" in turn else "value", changed + 1
        text = turn.get(key, "")
        turn[key] = f"<image>{text}" if isinstance(text, str) else [{"type": "image"}, *text]
        row["image" if one else "images"] = picture if one else [picture]
    _write(to, some)
    print(f"{changed} of {len(some)} rows had no image")
