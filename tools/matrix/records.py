"""The matrix's records: compat/matrix.jsonl, a line a cell.

- cell: such as "llava/zero3/lora/differ"; releases, commit, seed
- off: verdict (right, wrong, hang, crash, unmeasurable), message, error of the worst tensor's
  update, seconds
- on: verdict (right, stopped, unjudged, broken), ended (as with the guard off), bitwise (as without
  the guard), did (codes and outcomes), …
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.matrix import cells

FILE = Path(__file__).resolve().parents[2] / "compat" / "matrix.jsonl"
Record = dict[str, Any]


def make(
    key: str, off: Record, on: Record, releases: Mapping[str, str], commit: str, seed: int
) -> Record:
    """One record; the bits' digests said what they had to."""
    sides = [{k: v for k, v in told.items() if k != "digest"} for told in (off, on)]
    return {"cell": key, "off": sides[0], "on": sides[1], "releases": dict(releases),
            "commit": commit, "seed": seed}  # fmt: skip


def load(file: Path | None = None) -> dict[str, Record]:
    """Cell → record, in the order of `cells.cells`; the last of a cell counts, a line that was cut
    off does not."""
    file = file or FILE
    if not file.exists():
        return {}
    whole, _, _ = file.read_text("utf-8").rpartition("\n")
    found = {told["cell"]: told for told in map(json.loads, filter(None, whole.split("\n")))}
    order = {cell.key: number for number, cell in enumerate(cells.cells())}
    last = len(order)
    return {key: found[key] for key in sorted(found, key=lambda key: order.get(key, last))}


_held: list[Any] = []


def busy() -> bool:
    """Whether another process measures; else none will until this one ends."""
    handle = FILE.with_suffix(".lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    _held.append(handle)
    return False


def put(record: Record, file: Path | None = None) -> None:
    """Add it and write all, whole or not at all."""
    file = file or FILE
    kept = {**load(file), record["cell"]: record}
    part = file.with_suffix(".part")
    part.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in kept.values()))
    os.replace(part, file)
