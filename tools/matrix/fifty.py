"""Fifty runs that are broken without vlmguard, drawn with a seed from compat/matrix.jsonl and
docs/data/zoo_runs.jsonl, and made again on the sources as they are: docs/data/fifty.jsonl.

    python -m tools.matrix.fifty --seed 33
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

from tools.matrix import campaign, cells, records
from tools.ordinary.campaign import sources
from tools.zoo import runs as zoo

FILE = Path(__file__).resolve().parents[2] / "docs" / "data" / "fifty.jsonl"
HALF = 25


def broken(kept: dict[str, Any]) -> list[str]:
    """Cells that are not right without the guard, and have a verdict."""
    sides = {key: told["off"]["verdict"] for key, told in kept.items()}
    return sorted(key for key, verdict in sides.items() if verdict not in ("right", "fault"))


def drawn(seed: int) -> tuple[list[str], list[str]]:
    """Cells of the matrix and of the zoo, half and half."""
    chance = random.Random(seed)
    found = [chance.sample(broken(kept), HALF) for kept in (records.load(), zoo.load())]
    return found[0], found[1]


def again(of_matrix: list[str], of_zoo: list[str]) -> None:
    """Make the runs, off and on; their records are new ones."""
    todo = [cell for cell in cells.cells() if cell.key in of_matrix]
    todo.sort(key=campaign.where, reverse=True)
    for batch in campaign.batches(todo):
        campaign.run(batch)
    kept = zoo.load()
    for first in range(0, len(of_zoo), campaign.BATCH):
        for record in zoo.measure(of_zoo[first : first + campaign.BATCH]):
            told = record.get("on") or {"verdict": "-"}
            print(record["cell"], record["off"]["verdict"], "→", told["verdict"], flush=True)
            kept[record["cell"]] = record
        lines = [json.dumps(kept[key], sort_keys=True) for key in sorted(kept)]
        zoo.RECORDS.write_text("\n".join(lines) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    seed = parser.parse_args().seed
    of_matrix, of_zoo = drawn(seed)
    again(of_matrix, of_zoo)
    kept = {**records.load(), **zoo.load()}
    lines = []
    for key in (*of_matrix, *of_zoo):
        on = kept[key].get("on") or {"verdict": "none"}
        told = {"cell": key, "off": kept[key]["off"]["verdict"], "on": on["verdict"]}
        lines.append(json.dumps(told | {"seed": seed, "sources": sources()}))
    FILE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
