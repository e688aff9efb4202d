"""Which rows a rehearsal trains on: some of the user's own, in orders that ranks can meet.

A *cell* is one micro-batch of one rank. `arranged` makes cells for each order in turn, so that one
training of a few steps goes through all of them; a *window* is the steps of one order.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vlmguard.check.reading.named_files import Unreadable
from vlmguard.check.reading.row_kinds import kind

Row = dict[str, Any]
MOST = 500
WHOLE = 64 << 20
"""Bytes up to which a .jsonl file is read whole; of a larger one lines at random places are."""
STEPS = 2
LOADER, DIFFER, SWAPPED = "the loader's order", "ranks differ", "ranks differ, swapped"
ALL, NONE, ALONE = "all with media", "none with media", "media alone, then text alone"


@dataclass(frozen=True)
class Sample:
    """Attributes:
    rows: as the loader might give them.
    share: of rows without media.
    count: rows of all files together; 0 where that is not known.
    """

    rows: Sequence[Row]
    share: float = 0.0
    by_kind: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    count: int = 0

    @property
    def kinds(self) -> list[str]:
        """The kind with the most media first, text last."""
        return sorted(self.by_kind, key=lambda k: (k == "text", -k.count("+"), k))


@dataclass(frozen=True)
class Window:
    """An order, the steps that it takes, and the step (from 1) at which it begins."""

    order: str
    steps: int
    first: int

    @property
    def last(self) -> int:
        return self.first + self.steps - 1


def sample(files: Sequence[str], shuffled: bool, most: int = MOST, seed: int = 0) -> Sample:
    """Up to so many rows of all files together. Raises `Unreadable` for what cannot be read."""
    if not files:
        return of([])
    found: list[Row] = []
    counts: list[int] = []
    for file in files:
        some, count = _rows(file, max(most // len(files), 1), shuffled, seed)
        found += some
        counts.append(count)
    if not found:
        raise Unreadable(f"{files[0]}: no row in it")
    return replace(of(found), count=sum(counts) if all(counts) else 0)


def of(rows: Sequence[Row]) -> Sample:
    """Sort rows by kind."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        kinds.setdefault(kind(row), []).append(row)
    share = len(kinds.get("text", ())) / len(rows) if rows else 0.0
    return Sample(rows, share, kinds)


def _rows(file: str, most: int, shuffled: bool, seed: int) -> tuple[list[Row], int]:
    """Some rows of a file, and how many it has; 0 where it is not read whole."""
    ending = os.path.splitext(file)[1]
    try:
        if ending == ".jsonl" and os.path.getsize(file) > WHOLE:
            return list(_anywhere(file, most, seed) if shuffled else _first(file, most)), 0
        if ending == ".jsonl":
            lines = Path(file).read_text("utf-8").splitlines()
            found = [json.loads(line) for line in lines if line.strip()]
        elif ending == ".json":
            read = json.loads(Path(file).read_text("utf-8"))
            found = read if isinstance(read, list) else read.get("data", [read])
        elif ending in (".csv", ".tsv"):
            with open(file, newline="", encoding="utf-8") as text:
                found = list(csv.DictReader(text, delimiter="," if ending == ".csv" else "\t"))
        elif ending == ".parquet":
            found = importlib.import_module("pyarrow.parquet").read_table(file).to_pylist()
        else:
            raise Unreadable(f"{file}: a data file of a kind that is not read here")
    except (OSError, ValueError, UnicodeDecodeError, csv.Error, AttributeError) as error:
        raise Unreadable(f"{file}: {(str(error) or 'not readable').splitlines()[0]}") from None
    found = [row for row in found if isinstance(row, dict)]
    some = random.Random(seed).sample(found, min(most, len(found))) if shuffled else found[:most]
    few = rare(found)
    known = {id(row) for row in few}
    return [*few, *(row for row in some if id(row) not in known)], len(found)


RARE, SHAPES = 2, 16
"""Rows of one kind and shape that are rare, and how many such shapes are kept of a file."""
SHARE, SMALL = 100, 10
"""A shape is rare if it has fewer than one row in so many, in a small file one of so many."""


def rare(found: Sequence[Row]) -> list[Row]:
    """Rows unlike most: a kind, columns that hold something, or types, which few of the file have.
    They come first: a sample would leave them out, and a training meets them late."""
    shapes: dict[tuple[Any, ...], list[Row]] = {}
    for row in found:
        filled = tuple(sorted((str(name), type(value).__name__) for name, value in row.items()
                              if value not in (None, "", [])))  # fmt: skip
        shapes.setdefault((kind(row), filled), []).append(row)
    few = [rows for rows in shapes.values() if len(rows) * SHARE < len(found)
           or (len(rows) == 1 and len(found) >= SMALL)]  # fmt: skip
    return [row for rows in sorted(few, key=len)[:SHAPES] for row in rows[:RARE]]


def _anywhere(file: str, most: int, seed: int) -> Iterator[Row]:
    """Lines at random places: the set is never read whole."""
    draw = random.Random(seed)
    size = os.path.getsize(file)
    with open(file, "rb") as opened:
        for _ in range(most):
            opened.seek(draw.randrange(size))
            opened.readline()
            line = opened.readline()
            if line.strip():
                yield json.loads(line)


def _first(file: str, most: int) -> Iterator[Row]:
    with open(file, "rb") as opened:
        for _, line in zip(range(most), opened, strict=False):
            if line.strip():
                yield json.loads(line)


def orders(sample: Sample, world: int, thorough: bool, generates: bool) -> list[Window]:
    """The loader's order first. Generated batches follow no other: their rows repeat a prompt."""
    names = [LOADER]
    if len(sample.by_kind) > 1 and not generates:
        names += [DIFFER] if world > 1 else []
        if thorough:
            names += [SWAPPED, ALL, NONE] if world > 1 else [ALL, NONE]
            names.append(ALONE)
    return [Window(name, STEPS, 1 + STEPS * at) for at, name in enumerate(names)]


def arranged(
    sample: Sample, windows: Sequence[Window], world: int, batch: int, accumulation: int,
    blocks: bool = False, size: int = 0,
) -> list[list[list[Row]]]:  # fmt: skip
    """Cells: for each micro-batch of each step, one list of ``batch`` rows a rank.

    blocks: a rank's batch is of rows that follow each other, not of every ``world``-th. size: how
    many ranks the command has: of the loader's order two get what two of those would, two with
    unlike batches where there are any.
    """
    taken: dict[str, int] = {}

    def take(kind: str) -> Row:
        rows = sample.by_kind[kind]
        number = taken.get(kind, 0)
        taken[kind] = number + 1
        return rows[number % len(rows)]

    cells: list[list[list[Row]]] = []
    for window in windows:
        for step in range(window.steps):
            for _ in range(accumulation):
                if window.order == LOADER:
                    whole = _as_they_come(sample.rows, len(cells), max(size, world), batch, blocks)
                    cells.append(_some(whole, world))
                else:
                    kinds = [_forced(sample.kinds, window.order, step, r) for r in range(world)]
                    cells.append([[take(kind) for _ in range(batch)] for kind in kinds])
    return cells


def _as_they_come(
    rows: Sequence[Row], before: int, world: int, batch: int, blocks: bool
) -> list[list[Row]]:
    start = before * world * batch
    block = [rows[(start + at) % len(rows)] for at in range(world * batch)]
    if blocks:
        return [block[rank * batch : (rank + 1) * batch] for rank in range(world)]
    return [block[rank::world] for rank in range(world)]


def _some(batches: list[list[Row]], world: int) -> list[list[Row]]:
    """Of ``world`` ranks: the first ones, the last of them one that differs from the first."""
    if len(batches) == world:
        return batches
    seen = [{part for row in batch for part in kind(row).split("+")} - {"text"}
            for batch in batches]  # fmt: skip
    chosen = list(range(world))
    if world > 1:
        chosen[-1] = next((n for n, media in enumerate(seen) if media != seen[0]), chosen[-1])
    return [batches[number] for number in chosen]


def _forced(kinds: Sequence[str], order: str, step: int, rank: int) -> str:
    if order in (DIFFER, SWAPPED):
        return kinds[0] if (rank + (order == SWAPPED)) % 2 == 0 else kinds[-1]
    if order == ALONE:
        return kinds[0] if step == 0 else kinds[-1]
    return kinds[0] if order == ALL else kinds[-1]


def unlike(sample: Sample, world: int, steps: int = 2) -> list[Row]:
    """Rows for batches of one row, of which some ranks get media and others none, where there are
    both."""
    if len(sample.by_kind) < 2:
        return [sample.rows[at % len(sample.rows)] for at in range(steps * world)]
    kinds = [_forced(sample.kinds, DIFFER, 0, rank) for rank in range(world)]
    return [sample.by_kind[kind][step % len(sample.by_kind[kind])]
            for step in range(steps) for kind in kinds]  # fmt: skip


def dealt(cells: Sequence[Sequence[Sequence[Row]]]) -> list[Row]:
    """Rows in a file's order for a loader that gives row i to rank i % world."""
    return [
        cell[rank][at] for cell in cells for at in range(len(cell[0])) for rank in range(len(cell))
    ]


def alone(cells: Sequence[Sequence[Sequence[Row]]]) -> list[Row]:
    """The same micro-batches one after the other, for one rank."""
    return [row for cell in cells for batch in cell for row in batch]


def backwards(cells: Sequence[Sequence[Sequence[Row]]], accumulation: int) -> list[list[list[Row]]]:
    """The same steps, the micro-batches of each, and the ranks of these, in the reverse order."""
    steps = [cells[at : at + accumulation] for at in range(0, len(cells), accumulation)]
    return [[list(batch) for batch in cell[::-1]] for step in steps for cell in step[::-1]]


def write(path: Path, rows: Sequence[Row]) -> Path:
    """JSON lines."""
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows), "utf-8"
    )
    return path
