"""`make matrix`: every cell that has no record yet, guard off and on, one after the other.

    python tools/matrix/campaign.py [--minutes 30] [--only zero3] [--again] [--list]

Resumable: a cell's record is written as soon as both runs are over, to compat/matrix.jsonl. Cells
run in batches, a batch in two processes that import everything once: one with the guard off, one
with it on. Standard library only; the environments are those of constraints.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []

from tests.kit import envs  # noqa: E402
from tools.matrix import cells, records  # noqa: E402
from tools.matrix.cells import Cell  # noqa: E402

BATCH = 6
SPOILED = "llava/ddp/trained/differ!0"
"""A run in which one row is made as another: the oracle must reject it, or nothing is recorded."""
QUIET = 400.0
"""Seconds without a line after which a worker is ended: longer than any cell, imports counted."""
ENVS = {"trainer": "trl", "gemini": "colossalai"}
"""A plain Trainer on the newest transformers, and ColossalAI's."""


def where(cell: Cell) -> str:
    return "gemini" if cell.strategy == "gemini" else "trainer"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=0, help="begin no batch after so many")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--again", action="store_true", help="measure recorded cells, too")
    parser.add_argument("--list", action="store_true", help="say what is left, run nothing")
    options = parser.parse_args()
    if not options.list and records.busy():
        print("another process is measuring", flush=True)
        return 2
    kept = records.load()
    todo = [c for c in cells.cells() if re.search(options.only, c.key)]
    todo.sort(key=where, reverse=True)  # cells of a Trainer first; else the order stays
    if not options.again:
        todo = [c for c in todo if c.key not in kept]
    print(f"{len(todo)} cells to run, {len(kept)} recorded", flush=True)
    if options.list:
        print("\n".join(cell.key for cell in todo))
        return 0
    ends = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the worker, too
    faults = 0
    for batch in batches(todo):
        if time.monotonic() >= ends:
            break
        faults += run(batch)
    return 1 if faults else 0


def batches(todo: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Of one environment each, in the order of the cells."""
    left = list(todo)
    while left:
        batch = [c for c in left if where(c) == where(left[0])][:BATCH]
        left = [c for c in left if c not in batch]
        yield batch


def run(batch: Sequence[Cell]) -> int:
    """Measure and record; how many cells have no verdict."""
    name = ENVS[where(batch[0])]
    with tempfile.TemporaryDirectory(prefix="vlmguard-matrix-") as folder:
        spoiled = [SPOILED] if where(batch[0]) == "trainer" else []
        off = dict(lines(name, "off", folder, [*spoiled, *(cell.key for cell in batch)]))
        for key in spoiled:
            if off.get(key, {}).get("verdict") != "wrong":
                sys.exit(f"the oracle does not reject {key}: {off.get(key)}; nothing is recorded")
            print(f"{key}: rejected, updates off by {off[key]['error']}", flush=True)
        able = [c.key for c in batch if off.get(c.key, {}).get("verdict", "fault") != "fault"]
        done = 0
        for key, told in lines(name, "on", folder, able):
            if told.get("verdict", "fault") == "fault":
                off[key] = told
                continue
            releases = off["ready"]
            records.put(records.make(key, off[key], told, releases, commit(), cells.SEED))
            print(f"{key}: {off[key]['verdict']} → {told['verdict']}", flush=True)
            done += 1
        for cell in batch:
            told = off.get(cell.key, {"verdict": "fault", "message": "no line"})
            if told["verdict"] == "fault":
                print(f"{cell.key}: no verdict: {told['message']}", flush=True)
    return len(batch) - done


def lines(
    name: str, guard: str, folder: str, keys: Sequence[str], laid: str = ""
) -> Iterator[tuple[str, Any]]:
    """(cell, verdict) as a worker says them; ("ready", releases) first.

    laid: a folder of packages laid over the environment.
    """
    if not keys:
        return
    python = envs.program(name)
    command = [python, str(ROOT / "tools" / "matrix" / "worker.py"), guard, folder, *keys]
    with _started(command, _variables(name, guard, folder, laid), Path(folder)) as (process, alive):
        for line in process.stdout:
            alive()
            if line.startswith('{"cell"'):
                told = json.loads(line)
                yield told.pop("cell"), told
            elif line.startswith('{"ready"'):
                yield "ready", json.loads(line)["ready"]
    if process.returncode:
        text = (Path(folder) / "errors").read_text(errors="replace")[-2000:]
        print(f"a worker ended with {process.returncode}:\n{text}", flush=True)


@contextlib.contextmanager
def _started(command: Sequence[str], variables: dict[str, str], folder: Path) -> Iterator[Any]:
    """A process, and a function that says that it has moved: else it is ended after `QUIET`."""
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True,
        )  # fmt: skip
    moved = [time.monotonic()]

    def watch() -> None:
        while process.poll() is None:
            time.sleep(1)
            if time.monotonic() - moved[0] > QUIET:
                os.killpg(process.pid, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield process, lambda: moved.__setitem__(0, time.monotonic())
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # ranks die with it
        process.wait()


def _variables(name: str, guard: str, folder: str, laid: str) -> dict[str, str]:
    kit = ROOT / "tests" / "kit"
    sources = [str(kit / "standins"), str(ROOT), str(ROOT / "plugins"), *filter(None, [laid])]
    found = {
        "PATH": f"{envs.path(name) / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sources),
        "LANG": "C.UTF-8",
        "HOME": folder,
        "XDG_CACHE_HOME": str(Path(folder) / "cache"),
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "MATRIX_GEMINI": "1" if ENVS["gemini"] == name else "",
    }
    return {**found, "VLMGUARD": "off"} if guard == "off" else found


def commit() -> str:
    """Of these sources; a "+" behind it where files differ from it."""
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--short=9", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run(
        [*git, "status", "--porcelain", "-uno", "vlmguard", "plugins"],
        capture_output=True, text=True,
    )  # fmt: skip
    return found.stdout.strip() + ("+" if changed.stdout.strip() else "")


if __name__ == "__main__":
    sys.exit(main())
