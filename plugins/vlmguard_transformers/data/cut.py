"""Placeholders that a length limit cuts: a row that is cut at its pictures' own size has to be cut
in a rehearsal, too, where pictures are small."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

USUAL = 28 * 28
"""Pixels of one placeholder, of Qwen2-VL and most others that scale images to a limit of pixels."""
_SLACK = 1.1
_COLUMNS = ("images", "image")


def pixels(rows: Path, root: str, longest: int, most: int, few: int, each: int = USUAL) -> int:
    """Of one image, at most: ``few``; or, where a row would be longer than ``longest`` tokens with
    images of its own size, or of ``most`` pixels, so many that its images alone still are.

    root: the folder that rows' paths are relative to. longest: 0 where nothing is cut.
    """
    if not longest or most <= few:
        return min(most, few) if most else few
    for line in rows.read_text("utf-8").splitlines():
        row = json.loads(line)
        images = [min(size, most) for size in _sizes(row, root)]
        if sum(images) > few and sum(images) / each + _words(row) > longest:
            return max(few, min(most, int((longest + 64) * each * _SLACK)))
    return few


def each(folder: Path) -> int:
    """Pixels of one placeholder, by the processor's own config."""
    file = folder / "preprocessor_config.json"
    told = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    side = [told.get(name) for name in ("patch_size", "merge_size")]
    if all(isinstance(one, int) for one in side):
        return int((side[0] * side[1]) ** 2)
    return USUAL


def _words(row: Mapping[str, Any]) -> int:
    """Tokens of a row's text, rather too many."""
    told = {name: value for name, value in row.items() if name not in _COLUMNS}
    return len(json.dumps(told)) // 2


def _sizes(row: Mapping[str, Any], root: str) -> Iterator[int]:
    from PIL import Image

    for column in _COLUMNS:
        given = row.get(column) or ()
        for one in given if isinstance(given, list) else [given]:
            path = one.get("path") if isinstance(one, dict) else one
            with (
                contextlib.suppress(OSError, TypeError, ValueError),
                Image.open(Path(root, path)) as image,
            ):
                yield image.width * image.height
