"""`make rehearse-all SCRIPTS=FOLDER`: every example script of ms-swift that trains, rehearsed with
stand-in tokenizers, configs and rows; or why it could not be.

    python -m tools.scripts.campaign FOLDER --commit SHA [--minutes 30] [--only TEXT] [--again]

FOLDER is a checkout of ms-swift, of which nothing is kept here but paths. Resumable: a line of
docs/data/rehearsals.jsonl is written as soon as a command is over; it holds the commit that it is
of. Runs in the environment `swift`; one warm process rehearses all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "docs" / "data" / "rehearsals.jsonl"
sys.path[:0] = [str(HERE.parents[1])] if str(HERE.parents[1]) not in sys.path else []

from tests.kit import overlays  # noqa: E402
from tools.scripts import standins  # noqa: E402
from vlmguard.check import framework as frameworks  # noqa: E402
from vlmguard.check import script  # noqa: E402
from vlmguard.check.launcher import Job  # noqa: E402
from vlmguard.check.reading.named_files import Files  # noqa: E402
from vlmguard.check.script import Reading  # noqa: E402
from vlmguard.rehearse import client  # noqa: E402
from vlmguard.rehearse.folder import PREFIX  # noqa: E402
from vlmguard.rehearse.prepare import Refused, prepare  # noqa: E402
from vlmguard.rehearse.request import Request  # noqa: E402

LIMIT = 240.0
Line = dict[str, Any]
_FILES = (".jsonl", ".json", ".csv", ".parquet")
_DATA = ("--dataset", "--val_dataset", "--cached_dataset")


@dataclass(frozen=True)
class Met:
    """A training command of a script.

    Attributes:
        key: "path#number".
        like: what decides how it goes; the first of each kind is rehearsed before the others.
    """

    key: str
    job: Job
    reading: Reading
    model: str
    like: tuple[str, ...]


def commands(root: Path) -> Iterator[Met]:
    """Every command that trains with `swift`. The current folder is ``root``."""
    for path in sorted(root.joinpath("examples").rglob("*.sh")):
        name = str(path.relative_to(root))
        reading = script.of_file(name, [], os.environ)
        for number, job in enumerate(reading.jobs):
            files = Files(job.call.folder, reading.files)
            found = frameworks.of_job(job, files)
            if found is None or found[0].name != "ms-swift" or found[0].trains(found[1]):
                continue
            yield _met(f"{name}#{number}", job, reading, files)


def _met(key: str, job: Job, reading: Reading, files: Files) -> Met:
    words: dict[str, str] = {}
    with contextlib.suppress(Exception):
        owner, entry = frameworks.of_job(job, files)  # type: ignore[misc]
        values = owner.values(job, files, entry).values
        kinds = ("model", "rlhf_type", "tuner_type", "deepspeed", "fsdp", "packing", "task_type")
        words = {kind: str(values.get(kind) or "") for kind in kinds}
        words["entry"] = entry
    given = dict(zip(job.argv, job.argv[1:], strict=False)).get("--model", "")
    return Met(key, job, reading, words.get("model", given), tuple(words.values()))


def stood_in(met: Met, place: Path) -> tuple[Job, list[str]]:
    """The job with a stand-in for its model and for data files that are not there. Raises
    `Refused` where no stand-in is known."""
    folder = standins.of(met.model, place) if met.model else None
    if folder is None:
        why = standins.why_not(met.model)
        told = f"{met.model or 'its model'}{': ' if why else ''}{why}"
        raise Refused(f"no stand-in config and tokenizer for {told}")
    argv, told, wants = [], [f"model: {met.model}"], ""
    for word in met.job.argv:
        wants = word if word.startswith("--") else wants
        if wants == "--model" and word == met.model:
            word = str(folder)
        bare = word.partition("#")[0]
        path = Path(met.job.call.folder, bare)
        if wants in _DATA and bare.endswith(_FILES) and not path.exists():
            told.append(f"rows: {word}")
            word = "stand-in/rows"
        argv.append(word)
    if str(folder) not in argv:  # a config file names the model; a later flag wins
        argv += ["--model", str(folder)]
    return replace(met.job, argv=tuple(argv)), told


class Rehearser:
    """A warm process, started again after one that ended."""

    def __init__(self, place: Path, passes: tuple[str, ...]) -> None:
        self.place = place
        self.passes = passes
        self.worker: client.Worker | None = None
        self.count = 0

    def prepared(self, met: Met) -> tuple[Request, list[str]] | Line:
        """What would be rehearsed and what stands in, or why nothing is. Starts nothing."""
        self.count += 1
        scratch = self.place / str(self.count)
        scratch.mkdir()
        try:
            job, told = stood_in(met, self.place / "models")
            files = Files(met.job.call.folder, met.reading.files)
            found = prepare(job, files, met.reading.trace, scratch, None, False)
        except Refused as refused:
            word = {0: "does not train", 1: "refused"}.get(refused.code, "cannot tell")
            return {"verdict": word, "why": str(refused), "ran": False}
        return replace(found.request, limit=LIMIT, passes=self.passes), told

    def answer(self, request: Request, told: list[str]) -> Line:
        """The verdict as it is kept."""
        if self.worker is None:
            self.worker = client.Worker(request.adapter, self.place)
        try:
            found = self.worker.ask(request, lambda _: None)
        except client.Ended as ended:
            self.close()
            return {"verdict": "cannot tell", "why": str(ended), "ran": True}
        finally:
            shutil.rmtree(request.scratch, ignore_errors=True)
        return {**_kept(found), "stand_ins": told, "ran": True}

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None


def _kept(found: Mapping[str, Any]) -> dict[str, Any]:
    """What is worth a line."""
    names = ("verdict", "why", "mended", "fixes", "notes", "model", "weights", "full", "strategy",
             "world", "kinds", "orders", "times", "rss", "seconds", "alone")  # fmt: skip
    told = {name: found[name] for name in names if found.get(name)}
    sides = ("kind", "step", "order", "error", "message", "sites", "off", "why", "tensors")
    for side in ("off", "on"):
        if found.get(side):
            told[side] = {name: found[side][name] for name in sides if found[side][name]}
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commit", required=True, help="of ms-swift's repository")
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--only", default="", help="a part of a script's path")
    parser.add_argument("--again", action="store_true", help="also those that have a line")
    parser.add_argument("--undecided", action="store_true", help="also those without a verdict")
    parser.add_argument("--passes", default="off,on,alone")
    asked = parser.parse_args()
    _lay_over(overlays.folder("swift-rewards", "swift"))
    os.chdir(asked.folder)
    every = list(commands(Path.cwd()))
    asked.of = len(every)
    left = todo(every, asked)
    print(f"{len(left)} commands to do", flush=True)
    with client.place() as place:
        rehearser = Rehearser(place, tuple(asked.passes.split(",")))
        try:
            _work(rehearser, left, asked)
        finally:
            rehearser.close()
    return 0


def _lay_over(folder: Path) -> None:
    """What the scripts' rewards import, for this process and the worker."""
    sys.path.append(str(folder))
    os.environ["PYTHONPATH"] = f"{os.environ.get('PYTHONPATH', '')}:{folder}"


def _work(rehearser: Rehearser, left: list[Met], asked: argparse.Namespace) -> None:
    """First what needs no run, then the rest, while there is time."""
    until = time.monotonic() + asked.minutes * 60
    known = {(line["script"], line["why"]) for line in read() if not line["ran"]}
    queue = []
    for met in left:
        found = rehearser.prepared(met)
        if isinstance(found, dict):
            if (met.key, found["why"]) not in known:
                _write(met, found, asked, 0.0)
        else:
            queue.append((met, *found))
    for met, request, told in queue:
        if time.monotonic() > until:
            break
        begun = time.monotonic()
        _write(met, rehearser.answer(request, told), asked, time.monotonic() - begun)


def _write(met: Met, told: Line, asked: argparse.Namespace, spent: float) -> None:
    line = {"script": met.key, "commit": asked.commit, "passes": asked.passes,
            "release": metadata.version("ms-swift"), "of": asked.of, **told}  # fmt: skip
    with RESULTS.open("a") as file:
        file.write(placeless(json.dumps(line, ensure_ascii=False)) + "\n")
    print(f"{spent:5.0f} s {told['verdict']}: {met.key} {told.get('why', '')[:150]}", flush=True)


def placeless(text: str) -> str:
    """Without folders of this machine: what lies in a package, and what is made for a rehearsal."""
    text = re.sub(r"(/[\w.@+-]+)+/site-packages/", "…/", text)
    return re.sub(rf"(/[\w.@+-]+)*/{PREFIX}\w+", "…", text)


def todo(every: list[Met], asked: argparse.Namespace) -> list[Met]:
    """Commands that did not run yet at this commit: one of each kind first."""
    done = set() if asked.again else {
        line["script"] for line in read() if line["commit"] == asked.commit and line["ran"]
        and not (asked.undecided and line["verdict"] == "cannot tell")
    }  # fmt: skip
    wanted = [met for met in every if asked.only in met.key and met.key not in done]
    seen: Counter[tuple[str, ...]] = Counter()
    order = {}
    for met in wanted:
        order[met.key] = seen[met.like]
        seen[met.like] += 1
    return sorted(wanted, key=lambda met: order[met.key])


def read() -> list[dict[str, Any]]:
    """The newest line of each command."""
    if not RESULTS.exists():
        return []
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return list({(line["commit"], line["script"]): line for line in lines}.values())


if __name__ == "__main__":
    sys.exit(main())
