"""The process that imports a framework once and forks the ranks: ``-m vlmguard.selftest.worker``.

Prints one line, `MARK` and JSON: what became of the run with the guard off and with it on.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vlmguard import _bootstrap
from vlmguard.core.errors import innermost

MARK = "vlmguard-selftest:"
VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "",
    "DS_ACCELERATOR": "cpu",
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "MASTER_ADDR": "127.0.0.1",
    "NPROC_PER_NODE": "2",
}
LIMIT = 120.0
"""Seconds for one run, after which it is ended."""


def main(adapter: str, folder: Path) -> int:
    """Run twice in ``folder``, say what happened."""
    started = time.monotonic()
    os.environ.update(VARIABLES)
    _bootstrap.install()
    chosen = importlib.import_module(f"{adapter}.selftest")
    try:
        chosen.load()
    except Exception as error:
        print(f"{MARK}{json.dumps({'error': innermost(error)})}", flush=True)
        return 1
    imported = time.monotonic() - started
    from vlmguard.ranks import fork

    built = fork.run(lambda rank: chosen.prepare(folder), ranks=1, group="none", limit=LIMIT)
    argv = built.outcomes[0].value
    if not isinstance(argv, list):
        raise RuntimeError(f"the tiny model could not be built: {built.outcomes[0].message}")
    told: dict[str, Any] = {"framework": chosen.FRAMEWORK, "crash": chosen.CRASH}
    for guard in ("off", "on"):
        result = fork.run(_rank(chosen.train, argv, folder / guard, guard), group="none",
                          limit=LIMIT)  # fmt: skip
        cause = result.cause
        told[guard] = {
            "verdict": result.verdict,
            "message": (cause.message or "") if cause else "",
            "seconds": round(result.seconds, 1),
        }
        told[guard]["said"] = result.outcomes[0].value or []
    told["on"]["findings"] = _findings(folder / "on")
    told["imported"] = round(imported, 1)
    print(f"{MARK}{json.dumps(told)}", flush=True)
    return 0


def _rank(
    train: Callable[[list[str]], None], argv: list[str], folder: Path, guard: str
) -> Callable[[int], list[str]]:
    """One rank's work: the environment that torchrun would make, then the framework's command."""
    from vlmguard.ranks import ports

    folder.mkdir()
    port = ports.free()

    def work(rank: int) -> list[str]:
        os.environ["MASTER_PORT"] = str(port)
        os.environ["VLMGUARD_REPORT"] = str(folder / "report.jsonl")
        if guard == "off":
            os.environ["VLMGUARD"] = "off"
        os.chdir(folder)
        train(argv)
        return _said(rank)

    return work


def _said(rank: int) -> list[str]:
    """What this rank's vlmguard printed; `fork` sends a rank's output to a file of its own."""
    sys.stderr.flush()
    with open(f"/proc/self/fd/{sys.stderr.fileno()}", encoding="utf-8", errors="replace") as file:
        return [line.rstrip() for line in file if line.startswith("vlmguard: ")] if not rank else []


def _findings(folder: Path) -> list[dict[str, Any]]:
    """What the guard did, as its own report of rank 0 has it."""
    file = folder / "report.rank0.jsonl"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines]
    return [record for record in records if record["kind"] == "finding"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
