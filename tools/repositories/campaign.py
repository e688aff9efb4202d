"""Runs public repositories by their own scripts, guard off and on: `make repositories`.

    python -m tools.repositories.campaign CHECKOUTS [--only WORD] [--minutes 60] [--again]

CHECKOUTS is a folder with one checkout a repository, by the repository's name. Resumable: a line a
cell in docs/data/repositories.jsonl. Each cell is run three times: the reference is the script in
one process with the rows of both ranks, without DeepSpeed and checkpointing; then two gloo ranks
with the guard off, and with it on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit import envs, oracle, processes, runs
from tools.repositories import judge
from tools.repositories.recipe import WORLD, Cell, Place, Recipe
from tools.repositories.recipes import every

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs" / "data" / "repositories.jsonl"
HERE = Path(__file__).resolve().parent
LIMIT, QUIET = 400.0, 120.0
Record = dict[str, Any]


def load() -> dict[str, Record]:
    """Repository and cell → record."""
    lines = RECORDS.read_text("utf-8").splitlines() if RECORDS.exists() else []
    return {_key(record): record for record in map(json.loads, lines)}


def save(records: dict[str, Record]) -> None:
    """By repository and cell."""
    lines = [json.dumps(records[key], sort_keys=True) for key in sorted(records)]
    RECORDS.write_text("\n".join(lines) + "\n", "utf-8")


def _key(record: Record) -> str:
    return f"{record['repository']} {record['cell']}"


def measure(recipe: Recipe, cell: Cell, checkout: Path) -> Record:
    """The record of one cell."""
    told: Record = {
        "repository": recipe.name, "commit": commit(checkout), "script": recipe.script,
        "cell": cell.key, "packages": packages(recipe), "guard": commit(ROOT),
        "changes": sorted(recipe.changes), "altered": recipe.altered,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="vlmguard-repository-") as folder:
        ended: dict[str, runs.Outcome] = {}
        sides = ("off", "reference", "on") if recipe.replayed else ("reference", "off", "on")
        for side in sides:
            ended[side] = _run(recipe, cell, checkout, Path(folder) / side, side)
            judge.ran(ended[sides[0]])
        return told | judge.record(ended, cell.strategy, recipe.skip)


def _run(recipe: Recipe, cell: Cell, checkout: Path, folder: Path, side: str) -> runs.Outcome:
    runs.fresh(folder)
    work, alone = folder / "work" / "repository", side == "reference"
    shutil.copytree(checkout / recipe.folder, work, ignore=shutil.ignore_patterns(".git", "*.mp4"))
    data = folder / "work" / "data"
    data.mkdir()
    model = tiny(recipe, cell)
    assert recipe.words is not None
    python = envs.program(recipe.env)
    given = _variables(recipe, folder, side, work)
    words = recipe.words(cell, Place(work, data, model, alone))
    ranks = 1 if alone else WORLD
    launch = [python, "-m", "torch.distributed.run", "--nproc_per_node", str(ranks)]
    launch += ["--master_port", given["MASTER_PORT"], *words]
    if recipe.replayed and alone:
        launch = [python, str(HERE / "inside" / "repository_replay.py"), str(folder.parent / "off")]
    ended = processes.watch(launch, given, work, timeout=LIMIT, quiet=QUIET)
    if shown := os.environ.get("REPOSITORIES_SHOW"):
        text = "\n".join(line for _, line in ended.lines)
        Path(shown).mkdir(exist_ok=True)
        name = f"{recipe.name.split('/')[1]}-{cell.key.replace('/', '-')}-{side}.txt"
        (Path(shown) / name).write_text(text)
    return runs.outcome(launch, folder, ended)


def tiny(recipe: Recipe, cell: Cell) -> Path:
    """The checkpoint of the cell's family, made by the packages that will train it; a recipe's own
    model is made by its words."""
    from tests.kit.models.families import FAMILIES

    if cell.model not in FAMILIES:
        return Path()
    return runs.model_folder(recipe.env, cell.model, recipe.over)


def _variables(recipe: Recipe, folder: Path, side: str, work: Path) -> dict[str, str]:
    found = runs.variables(recipe.env, folder, guard=side == "on", over=recipe.over)
    paths = [str(HERE / "inside"), str(HERE / "stubs"), found["PYTHONPATH"], str(work)]
    for name, value in recipe.variables:
        if name == "PYTHONPATH":
            paths.append(str(work / value))
        else:
            found[name] = value
    found |= {
        "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1",
        "REPOSITORY_CHANGES": " ".join(recipe.changes), "WANDB_MODE": "disabled",
        "VLMGUARD_TEST_SAME_ADAPTERS": "1",
        "VLMGUARD_WAIT": "60",  # on a busy machine ranks are slow
    }  # fmt: skip
    return found


def commit(checkout: Path) -> str:
    """Of a checkout; one without git names it in a file COMMIT."""
    named = checkout / "COMMIT"
    if named.exists():
        return named.read_text().strip()[:12]
    asked = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def packages(recipe: Recipe) -> dict[str, str]:
    """Of what decides: the overlay's pins before the environment's."""
    pins = [*envs.sections()[recipe.env], *envs.sections().get(recipe.over, [])]
    told = dict(pin.split("==", 1) for pin in pins if "==" in pin)
    names = ("torch", "transformers", "accelerate", "deepspeed", "peft")
    return {name: told[name] for name in names if name in told}


def _todo(
    only: str, checkouts: Path, kept: dict[str, Record], again: bool
) -> Iterator[tuple[Recipe, Cell | None]]:
    for recipe in every():
        if recipe.refused and only.lower() in recipe.name.lower():
            yield recipe, None
        for cell in () if recipe.refused else recipe.cells:
            key = f"{recipe.name} {cell.key}"
            there = (checkouts / recipe.name.split("/")[1]).is_dir()
            if there and only.lower() in key.lower() and (again or key not in kept):
                yield recipe, cell


def main() -> None:
    """Make what has no record yet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--only", default="", help="cells with this word in repository or cell")
    parser.add_argument("--minutes", type=float, default=600, help="begin no cell after so many")
    parser.add_argument("--again", action="store_true", help="those with a record, too")
    options = parser.parse_args()
    ends, kept = time.monotonic() + 60 * options.minutes, load()
    for recipe, cell in _todo(options.only, options.checkouts, kept, options.again):
        if time.monotonic() > ends:
            break
        checkout = options.checkouts / recipe.name.split("/")[1]
        if cell is None:
            told = {
                "repository": recipe.name, "cell": "", "script": recipe.script,
                "commit": commit(checkout), "verdict": f"refused: {recipe.refused}",
            }  # fmt: skip
        else:
            try:
                told = measure(recipe, cell, checkout)
            except oracle.Vacuous as error:
                sys.stderr.write(f"{recipe.name} {cell.key}: no comparison: {error}\n")
                continue
        kept[_key(told)] = told
        save(kept)
        print(_key(told), "→", told["verdict"], flush=True)


if __name__ == "__main__":
    main()
