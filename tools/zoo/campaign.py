"""Tries every class with a tower in the installed transformers: `make zoo`.

    python -m tools.zoo.campaign [--only WORD]

Resumable: a line a class in docs/data/zoo.jsonl; one of other sources or releases is made again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.kit import envs, overlays

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs" / "data" / "zoo.jsonl"
FOLDERS, FILES = ("observe", "blank", "layout", "media"), ("worker", "configs", "classes")
ENVIRONMENT, OVER = "trl", "trl-timm"
Record = dict[str, Any]


def sources() -> str:
    """A digest of what decides the answers."""
    folders = [ROOT / "plugins" / "vlmguard_torch" / name for name in FOLDERS]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    files += [ROOT / "tools" / "zoo" / f"{name}.py" for name in FILES]
    found = b"".join(file.read_bytes() for file in sorted(files))
    return hashlib.sha256(found).hexdigest()[:12]


def ran(record: Record) -> bool:
    """Whether a row of text ran, and one with an input for a tower."""
    rows = record.get("rows") or {}
    return rows.get("text") == "" and any(kind != "text" and not why for kind, why in rows.items())


def load() -> dict[str, Record]:
    """Class → its record."""
    lines = RECORDS.read_text("utf-8").splitlines() if RECORDS.exists() else []
    return {record["class"]: record for record in map(json.loads, lines)}


def save(records: dict[str, Record]) -> None:
    """By name."""
    lines = [json.dumps(records[name], sort_keys=True) for name in sorted(records)]
    RECORDS.write_text("\n".join(lines) + "\n", "utf-8")


def classes() -> list[str]:
    """As the environment's transformers has them."""
    code = "from tools.zoo import classes; print(*classes.every())"
    done = _python("-c", code, stdout=subprocess.PIPE)
    assert done.stdout is not None
    return done.stdout.read().split()


def answers(names: Sequence[str]) -> Iterator[Record]:
    """The record of each class, as it comes; each with the releases."""
    process = _python("-m", "tools.zoo.worker", *names, stdout=subprocess.PIPE)
    assert process.stdout is not None
    releases = json.loads(process.stdout.readline())
    for line in process.stdout:
        yield {**json.loads(line), **releases}


def _python(*words: str, **options: Any) -> subprocess.Popen[str]:
    laid = overlays.folder(OVER, ENVIRONMENT)
    folders = [ROOT / "tests" / "kit" / "standins", ROOT, ROOT / "plugins", laid]
    variables = {
        **os.environ, "VLMGUARD": "off", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, folders)),
    }  # fmt: skip
    line = [envs.program(ENVIRONMENT), *words]
    return subprocess.Popen(
        line, env=variables, cwd=ROOT, text=True, stderr=subprocess.DEVNULL, **options
    )


def main() -> None:
    """Make what has no record yet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="classes with this word in their name")
    word = parser.parse_args().only.lower()
    records, now = load(), sources()
    old = {name for name, record in records.items() if record.get("sources") != now}
    left = [name for name in classes() if name in old or name not in records]
    for record in answers([name for name in left if word in name.lower()]):
        records[record["class"]] = {**record, "sources": now}
        save(records)
        print(record["class"], record["answer"], flush=True)


if __name__ == "__main__":
    main()
