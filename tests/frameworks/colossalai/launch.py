"""Runs `worker.py` under torchrun and reads back what each rank wrote.

    done = run(cases, world=2, guard=True)
    done.code, done.output, done.ranks("text"), done.records("text")

The same launch is made once a session and shared between pytest's processes. Several cases share
one launch, since importing costs ten times as much as a case; what must be seen from the launcher
(a hang, a stop) is launched alone.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tests.kit import envs, overlays, processes, runs
from tests.kit.standins.vlmguard_capture import Rank, digest
from tests.kit.turns import turn
from vlmguard.ranks import ports

HERE = Path(__file__).parent
LIMIT = 240.0
MODELS = ("qwen2_vl", "qwen2_5_vl", "llava", "llava_default")


@dataclass(frozen=True)
class Done:
    """What came of one launch."""

    folder: str
    code: int
    seconds: float
    hung: bool
    survivors: Sequence[int]
    lines: Sequence[tuple[float, str]]
    progress: float = 0.0

    @property
    def output(self) -> str:
        return "\n".join(text for _, text in self.lines)

    def ranks(self, case: str) -> list[dict[str, Any]]:
        """What each rank wrote of a case; a rank that was ended from outside wrote nothing."""
        files = sorted(Path(self.folder).glob(f"{case}.rank*.pt"))
        return [torch.load(file, weights_only=True) for file in files]

    def weights(self, case: str) -> tuple[Rank, ...]:
        """Of a case that trained to its end, as `tests.kit.oracle` compares them."""
        ranks = []
        for number, seen in enumerate(self.ranks(case)):
            assert seen["stage"] == "done", f"rank {number}, {seen['stage']}: {seen.get('trace')}"
            after, trained = seen["after"], seen["trainable"]
            ranks.append(
                Rank(
                    rank=number,
                    world=len(self.ranks(case)),
                    wrapped=seen["wrapped"],
                    initial={name: seen["before"][name] for name in trained},
                    final={name: after[name] for name in trained},
                    losses=seen["losses"],
                    digests={name: digest(weight) for name, weight in after.items()},
                )
            )
        return tuple(ranks)

    def records(self, case: str, kind: str = "finding") -> list[dict[str, Any]]:
        """What the guard reported of a case, of all ranks."""
        files = sorted(Path(self.folder).glob(f"{case}.rank*.jsonl"))
        records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [record for record in records if record["kind"] == kind]

    def outcomes(self, case: str) -> set[tuple[str, str]]:
        """(code, outcome) of every finding of a case."""
        return {(record["code"], record["outcome"]) for record in self.records(case)}

    def seconds_after(self, text: str) -> float:
        """From the first line with ``text`` to the end, by `tests.kit.pace`."""
        return self.progress - next(second for second, line in self.lines if text in line)


def run(
    cases: Sequence[Mapping[str, Any]],
    *,
    guard: bool,
    world: int = 1,
    limit: float = LIMIT,
    quiet: float = LIMIT,
    env: Mapping[str, str] | None = None,
    over: str = "",
) -> Done:
    """One torchrun for all ``cases``; a hang costs ``quiet`` seconds, or ``limit`` in all, and
    leaves no process.

    over: an older release, a section of constraints.txt.
    """
    laid = [str(overlays.folder(over, "colossalai"))] if over else []
    if path := [*envs.SOURCES, *laid]:
        env = {**(env or {}), "PYTHONPATH": os.pathsep.join(path)}
    key = json.dumps([list(cases), guard, world, dict(env or {})], sort_keys=True)
    folder = runs.session() / f"colossalai-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with _locked(folder):
        kept = folder / "done.json"
        if not kept.exists():
            done = _launch(folder, cases, guard, world, limit, quiet, env or {})
            kept.write_text(json.dumps(asdict(done)))
        return Done(**json.loads(kept.read_text()))


def _launch(
    folder: Path,
    cases: Sequence[Mapping[str, Any]],
    guard: bool,
    world: int,
    limit: float,
    quiet: float,
    env: Mapping[str, str],
) -> Done:
    folder.mkdir(parents=True, exist_ok=True)
    python = envs.program("colossalai")
    job = json.dumps({"cases": list(cases), "out": str(folder), "models": str(models())})
    command = [python, "-m", "torch.distributed.run", f"--nproc_per_node={world}"]
    command += ["--master_addr=127.0.0.1", f"--master_port={ports.free()}"]
    command += [str(HERE / "worker.py"), job]
    settings = {k: v for k, v in os.environ.items() if not k.startswith(("VLMGUARD", "PYTHON"))}
    settings |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}
    settings |= {"VLMGUARD_REPORT": str(folder / "guard.jsonl")} if guard else {"VLMGUARD": "off"}
    with turn():
        ended = processes.watch(command, {**settings, **env}, folder, timeout=limit, quiet=quiet)
    return Done(
        str(folder), ended.returncode, ended.seconds, ended.hung, ended.survivors, ended.lines,
        ended.progress,
    )  # fmt: skip


@functools.cache
def models() -> Path:
    """Tiny checkpoints of every family, built once a session."""
    folder = runs.session() / "colossalai-models"
    with _locked(folder):
        if not (folder / "done").exists():
            for kind in MODELS:
                _build(folder / kind, kind)
            (folder / "done").touch()
    return folder


def _build(folder: Path, kind: str) -> None:
    ended = processes.watch(
        [envs.program("colossalai"), str(HERE / "models.py"), str(folder), kind],
        {**os.environ, "VLMGUARD": "off"},
        HERE,
        timeout=LIMIT,
        quiet=LIMIT,
    )
    if ended.returncode:
        sys.exit("\n".join(text for _, text in ended.lines[-20:]))


class _locked:
    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.handle = folder.with_suffix(".lock").open("w")

    def __enter__(self) -> None:
        fcntl.flock(self.handle, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self.handle.close()
