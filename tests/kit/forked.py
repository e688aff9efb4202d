"""Runs commands of `PROGRAMS`, each in forked ranks of one process that imports once: a second or
two a run where a launcher takes half a minute.

    outcomes = run([Job("mixed", trainers.plain("mixed", *flags))])
    outcomes["mixed"].verdict, .message, .ranks, .findings

The ranks make their own group, as under torchrun, on a port of their own.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit import runs, trainers
from tests.kit.standins.vlmguard_capture import Rank, read
from vlmguard.ranks import ports

PROGRAMS = ("train", "language")
START, EACH = 300, 60
"""Seconds that the imports, and each run, may take on a busy machine."""


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        command: of `trainers.plain`, or of `trainers.script` for one of `PROGRAMS`.
        extra: environment variables.
        guard: whether vlmguard is on.
    """

    name: str
    command: trainers.Command
    extra: Mapping[str, str] = field(default_factory=dict)
    guard: bool = False
    world: int = 2


@dataclass(frozen=True)
class Forked:
    """What became of a run: `vlmguard.ranks`' verdict, the cause's words, the end of the output."""

    folder: Path
    verdict: str
    message: str
    output: str

    @functools.cached_property
    def ranks(self) -> tuple[Rank, ...]:
        return read(self.folder / "capture")

    @property
    def findings(self) -> list[dict[str, Any]]:
        files = (self.folder / "report").glob("*.jsonl")
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [line for line in lines if line["kind"] == "finding"]


def run(jobs: Sequence[Job], folder: Path, env: str = "trl", over: str = "") -> dict[str, Forked]:
    """Run all, with the guard and without in a process of its own each."""
    told: dict[str, Forked] = {}
    for guard in (False, True):
        chosen = [job for job in jobs if job.guard is guard]
        told |= _in_one_process(chosen, folder, env, over, guard) if chosen else {}
    return told


def _in_one_process(
    jobs: Sequence[Job], folder: Path, env: str, over: str, guard: bool
) -> dict[str, Forked]:
    listed = [_described(job, folder / job.name, env, over) for job in jobs]
    variables = trainers._variables(env, folder, guard, over)
    variables["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).parents[2]}"
    variables["HOME"] = variables["TMPDIR"] = str(folder)
    program = [runs.envs.program(env), str(Path(__file__).resolve())]
    with runs.turn():
        done = subprocess.run(
            program, input=json.dumps(listed), env=variables, capture_output=True, text=True,
            timeout=START + EACH * len(jobs), check=False,
        )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    assert len(lines) == len(jobs), done.stdout[-2000:] + done.stderr[-4000:]
    return {
        each["name"]: Forked(folder / each.pop("name"), **each) for each in lines
    }


def _described(job: Job, folder: Path, env: str, over: str) -> dict[str, Any]:
    """The run as JSON."""
    (folder / "work").mkdir(parents=True, exist_ok=True)
    model = str(runs.model_folder(env, job.command.model, over))
    places = {"data": str(trainers.tables()), "model": model}
    words = [trainers._filled(word, places) for word in job.command.words]
    start = next(number for number, word in enumerate(words) if Path(word).stem in PROGRAMS)
    own = {
        "VLMGUARD_TEST_CAPTURE": str(folder / "capture"),
        "VLMGUARD_REPORT": str(folder / "report" / "findings.jsonl"),
    }
    return {"name": job.name, "argv": words[start:], "folder": str(folder),
            "env": {**own, **job.extra}, "world": job.world}  # fmt: skip


def _serve() -> None:
    """The process that imports once: a list of runs on standard input, a line of JSON each."""
    import accelerate  # noqa: F401
    import deepspeed  # noqa: F401
    import language  # noqa: F401
    import peft  # noqa: F401
    import train  # noqa: F401
    import transformers.models.llava.modeling_llava
    import transformers.models.qwen2_vl.modeling_qwen2_vl  # noqa: F401

    from vlmguard.ranks import run as fork

    def work(job: Mapping[str, Any]) -> Any:
        def rank(number: int) -> None:
            os.chdir(Path(job["folder"]) / "work")
            sys.argv = list(job["argv"])
            importlib.import_module(Path(sys.argv[0]).stem).main()

        return rank

    for job in json.loads(sys.stdin.read()):
        before = dict(os.environ)
        os.environ.update(job["env"], MASTER_PORT=str(ports.free()))
        result = fork(work(job), job["world"], group="none", limit=90)
        os.environ.clear()
        os.environ.update(before)
        cause = result.cause
        print(json.dumps({
            "name": job["name"],
            "verdict": result.verdict,
            "message": f"{cause.error}: {cause.message}" if cause else "",
            "output": "\n".join(each.output for each in result.outcomes),
        }), flush=True)  # fmt: skip


if __name__ == "__main__":
    _serve()
