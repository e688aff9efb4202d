"""Runs `worker.py` under torchrun and reads back what each rank wrote."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Done:
    """What came of one launch; `code` is None where the time limit ended it."""

    code: int | None
    seconds: float
    log: str
    ranks: Mapping[str, Sequence[Mapping[str, Any]]]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(
    cases: Sequence[Mapping[str, Any]],
    *,
    models: Path,
    out: Path,
    world: int = 1,
    limit: float = 240,
    env: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> Done:
    """One torchrun for all `cases`; a hang costs `limit` seconds and leaves no process behind."""
    out.mkdir(parents=True, exist_ok=True)
    job = json.dumps({"cases": list(cases), "out": str(out), "models": str(models)})
    command = [python, "-m", "torch.distributed.run", f"--nproc_per_node={world}"]
    command += ["--master_addr=127.0.0.1", f"--master_port={_free_port()}", str(WORKER), job]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **(env or {})}
    started = time.monotonic()
    log = out / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, env=settings, start_new_session=True
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGTERM)  # torchrun ends its ranks
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    seconds = time.monotonic() - started
    ranks = {
        case["name"]: [
            torch.load(path, weights_only=True)
            for rank in range(world)
            if (path := out / f"{case['name']}.rank{rank}.pt").exists()
        ]
        for case in cases
    }
    return Done(code, seconds, log.read_text(errors="replace"), ranks)
