"""Measures cells: imports everything once and forks the ranks of each cell.

    python tools/matrix/worker.py off|on FOLDER CELL[!ROW]…

One JSON line a cell. FOLDER keeps references, which the run with the guard off makes, and its
digests. A `!ROW` behind a cell makes row ROW as another one: a run that the oracle must reject.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import pickle
import shutil
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from tools.matrix import judge, rows
from tools.matrix.cells import Cell
from vlmguard.ranks import run

LIMIT = 240.0


def main() -> None:
    guard, folder, *keys = sys.argv[1:]
    kept = Path(folder)
    module = _prepare()
    print(json.dumps({"ready": _releases()}), flush=True)
    for key in keys:
        name, _, spoil = key.partition("!")
        cell = Cell.parse(name)
        begun = time.monotonic()
        told = _measure(module, cell, guard, kept, int(spoil) if spoil else None)
        told["seconds"] = round(time.monotonic() - begun, 1)
        print(json.dumps({"cell": key, **told}), flush=True)


def _measure(
    module: Any, cell: Cell, guard: str, kept: Path, spoil: int | None
) -> dict[str, Any]:
    scratch = Path(tempfile.mkdtemp(prefix="matrix-"))
    try:
        known = _reference(module, cell, kept)
        os.environ["VLMGUARD_REPORT"] = str(scratch / "findings.jsonl")
        out = str(scratch / "out")
        ended = run(lambda _: module.work(cell, out, spoil), rows.WORLD, "gloo", LIMIT)
        if os.environ.get("MATRIX_SHOW"):
            sys.stderr.write("\n".join(o.output for o in ended.outcomes) + "\n")
            sys.stderr.write("\n".join(f for o in ended.outcomes for f in o.frames[-12:]) + "\n")
        before = kept / (cell.key.replace("/", "-") + ".off.json")
        if guard == "off":
            told = judge.off(ended, known, cell.strategy)
            if spoil is None:
                before.write_text(json.dumps(told))
            return told
        said = judge.findings(scratch)
        return judge.on(ended, known, cell.strategy, json.loads(before.read_text()), said)
    except Exception as error:  # a fault of the tool is not a verdict
        return {"verdict": "fault", "message": f"{type(error).__name__}: {error}"[:500]}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _reference(module: Any, cell: Cell, kept: Path) -> dict[str, Any]:
    file = kept / ("-".join(cell.reference) + ".pickle")
    if not file.exists():
        alone = run(lambda _: module.reference(cell), 1, "none", LIMIT).outcomes[0]
        if alone.state != "returned":
            raise RuntimeError(f"no reference: {alone.error}: {alone.message}")
        file.write_bytes(pickle.dumps(alone.value))
    found: dict[str, Any] = pickle.loads(file.read_bytes())
    return found


def _releases() -> dict[str, str]:
    names = ("torch", "transformers", "accelerate", "peft", "deepspeed", "colossalai")
    found = {}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name).split("+")[0]
    return found


def _prepare() -> Any:
    """Import all that ranks need. The parent never computes: torch's threads do not survive a
    fork."""
    import torch

    torch.set_num_threads(1)
    if os.environ.get("MATRIX_GEMINI"):
        from tools.matrix import gemini_run as module
    else:
        from tools.matrix import trainer_run as module
    module.prepare()
    import transformers

    transformers.logging.set_verbosity_error()
    logging.disable(logging.INFO)
    gc.collect()
    gc.freeze()
    return module


if __name__ == "__main__":
    main()
