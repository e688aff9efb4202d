"""Real runs of classes of the zoo, guard off and on, against plain torch: `make zoo-runs`.

    python -m tools.zoo.runs [--minutes 30] [--number 150] [CELL…]

Cells are drawn so that they cover every pair of class, strategy, rows and freezing with as few as
can be; two gloo ranks of a plain transformers' Trainer each, by the matrix's worker. Resumable: a
line a cell in docs/data/zoo_runs.jsonl.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tests.kit import overlays
from tools.matrix import campaign as matrix
from tools.zoo import campaign as zoo

RECORDS = zoo.RECORDS.with_name("zoo_runs.jsonl")
STRATEGIES = ("ddp", "zero2", "zero3", "fsdp2")
TUNINGS = ("trained", "frozen")
ORDERS = ("differ", "phases")
SEED, BATCH = 28, 4
PREFIX = "zoo:"
Record = dict[str, Any]


def drawn(classes: list[str], done: Collection[str] = ()) -> Iterator[str]:
    """Cells, those first that cover the most pairs that no cell before them has.

    done: cells that are recorded: they come before all, also if other classes ran then.
    """
    left = list(itertools.product(sorted(classes), STRATEGIES, TUNINGS, ORDERS))
    random.Random(SEED).shuffle(left)
    missing = {pair for cell in left for pair in _pairs(cell)}
    for key in done:
        yield key
        cell = tuple(key.removeprefix(PREFIX).split("/"))
        missing -= _pairs(cell)
        left = [other for other in left if other != cell]
    while left:
        best = max(left, key=lambda cell: len(_pairs(cell) & missing)) if missing else left[0]
        left.remove(best)
        missing -= _pairs(best)
        yield PREFIX + "/".join(best)


def _pairs(cell: tuple[str, ...]) -> set[Any]:
    return set(itertools.combinations(enumerate(cell), 2))


def load() -> dict[str, Record]:
    """Cell → record."""
    lines = RECORDS.read_text("utf-8").splitlines() if RECORDS.exists() else []
    return {record["cell"]: record for record in map(json.loads, lines)}


def measure(keys: list[str]) -> Iterator[Record]:
    """Both runs of each."""
    with tempfile.TemporaryDirectory(prefix="vlmguard-zoo-") as folder:
        laid = str(overlays.folder(zoo.OVER, zoo.ENVIRONMENT))
        off = dict(matrix.lines(zoo.ENVIRONMENT, "off", folder, keys, laid))
        able = [key for key in keys if off.get(key, {}).get("verdict", "fault") != "fault"]
        for key in [key for key in keys if key not in able]:
            told = off.get(key, {"verdict": "fault", "message": "no line"})
            yield {"cell": key, "off": told, "releases": off.get("ready", {})}
        for key, told in matrix.lines(zoo.ENVIRONMENT, "on", folder, able, laid):
            if key != "ready":
                sides = {"off": off[key], "on": told, "releases": off["ready"]}
                yield {"cell": key, **sides, "commit": matrix.commit()}


def main() -> None:
    """Make what has no record yet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=600, help="begin no batch after so many")
    parser.add_argument("--number", type=int, default=150, help="of cells, those recorded included")
    parser.add_argument(
        "cells", nargs="*", help="these, for example zoo:Llama4…/zero2/trained/differ"
    )
    options = parser.parse_args()
    ends, kept = time.monotonic() + 60 * options.minutes, load()
    able = [name for name, told in zoo.load().items() if zoo.ran(told)]
    wanted = options.cells or itertools.islice(drawn(able, kept), options.number)
    todo = [key for key in wanted if key not in kept]
    while todo and time.monotonic() < ends:
        for record in measure(todo[:BATCH]):
            told = record.get("on") or {"verdict": "-"}
            print(record["cell"], record["off"]["verdict"], "→", told["verdict"], flush=True)
            kept[record["cell"]] = record
            lines = [json.dumps(kept[key], sort_keys=True) for key in sorted(kept)]
            Path(RECORDS).write_text("\n".join(lines) + "\n", "utf-8")
        todo = todo[BATCH:]


if __name__ == "__main__":
    main()
