"""`make rehearse-jobs`: what `rehearse` says of a command beside what real gloo ranks do with it.

    python -m tests.frameworks.rehearse.jobs ENVIRONMENT [--minutes 30] [--only TEXT] [--shares]

The jobs: commands whose outcome a test establishes (`known`), then, of ms-swift, others drawn over
model class, strategy, tuning and rows (`drawn`), each with real ranks of its own. Resumable: a line
of docs/data/rehearse_jobs.jsonl for each side as it ends; docs/rehearsals.md compares the two.
`--shares` runs real ranks of those that are silently wrong, too, to compare by how much.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from tests.frameworks.rehearse import anew, drawn, known, late, loops, odd, real, tasks
from tests.frameworks.rehearse.known import Job
from tests.kit import envs
from vlmguard.check import script
from vlmguard.check.reading.named_files import Files
from vlmguard.rehearse import client
from vlmguard.rehearse.ending import NAME, RESUMED
from vlmguard.rehearse.jobs import with_check
from vlmguard.rehearse.prepare import Refused, prepare
from vlmguard.rehearse.training_rows import LOADER
from vlmguard.rehearse.verdict import CANNOT

RECORDS = envs.ROOT / "docs" / "data" / "rehearse_jobs.jsonl"
Side = dict[str, Any]
_PLACES = re.compile(r"(?<![\w.])(?:/[\w.@+-]+){2,}/")
"""Folders of one machine."""


def jobs(env: str) -> Iterator[Job]:
    """The odd ones, those that fail, the healthy ones, then what nobody knows."""
    yield from odd.jobs(env)
    yield from late.jobs(env)
    yield from anew.jobs(env)
    found = [job for job in known.jobs() if job.env == env]
    yield from sorted(found, key=lambda job: ("wrong", "hang", "crash", "right").index(
        job.known.removeprefix("silently ")))  # fmt: skip
    if env == "trl":
        yield from loops.jobs()
    if env == "swift":
        yield from (known.of_run(run, run.name) for run in chain(tasks.made(), drawn.runs()))


class Rehearser:
    """The warm process of one framework; another one where it ended."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.workers: dict[str, client.Worker] = {}

    def ask(self, job: Job) -> Side:
        """The guard off, two ranks and the reference."""
        scratch = self.place / job.name
        for each in (scratch, folder := self.place / "work"):
            each.mkdir(exist_ok=True)
        line, files = job.line()
        for name, text in files.items():
            (folder / name).write_text(text)
        os.chdir(folder)
        begun = time.monotonic()
        try:
            words = shlex.split(line)
            reading = (script.of_file(words[1], (), os.environ) if words[0] == "bash" else
                       script.of_words(words, os.environ))  # fmt: skip
            given = Files(str(folder), reading.files)
            found = prepare(reading.jobs[0], given, reading.trace, scratch, None, False)
            request = replace(found.request, passes=(*job.passes, "end", "alone"), limit=240.0)
            if request.adapter not in self.workers:
                self.workers[request.adapter] = client.Worker(request.adapter, self.place)
            answer = self.workers[request.adapter].ask(request, lambda _: None)
            answer = with_check(answer, found.verdict)
        except Refused as refused:
            return {"verdict": "cannot tell", "why": str(refused), "seconds": 0.0}
        except client.Ended as ended:
            self.workers.clear()
            return {"verdict": "cannot tell", "why": str(ended), "seconds": 0.0}
        return {**_told(answer), "seconds": round(time.monotonic() - begun, 1)}


def _told(answer: Side) -> Side:
    off = answer.get("off") or {}
    kept = {name: off[name] for name in ("order", "step", "off", "error", "message", "sites")
            if off.get(name)}  # fmt: skip
    on = answer.get("on") or {}
    if on:
        kept["on"] = on["kind"]
        kept["fixes"] = answer.get("fixes", {})
    checked = answer["verdict"] == CANNOT  # after all: under an error that `check` found
    word = CANNOT if checked else off.get("kind") or answer["verdict"]
    return {"verdict": word, "why": answer.get("why") or off.get("why", ""), **kept,
            "shares": [error for _, error in off.get("tensors", ())],
            "times": answer.get("times"), "rss": answer.get("rss")}  # fmt: skip


def read() -> dict[tuple[str, str], Side]:
    """The newest line of each job and side."""
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    every = [json.loads(line) for line in lines]
    return {(one["job"], one["side"]): one for one in every}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", choices=("swift", "trl", "llamafactory", "flagembedding"))
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--only", default="", help="a pattern for names of jobs")
    parser.add_argument("--shares", action="store_true")
    asked = parser.parse_args()
    until = time.monotonic() + asked.minutes * 60
    done = read()
    with client.place() as place:
        rehearser = Rehearser(place)
        for job in jobs(asked.env):
            if time.monotonic() > until:
                break
            if re.search(asked.only, job.name):
                for line in chain(_mine(rehearser, job, done), _theirs(job, done, asked.shares)):
                    _write(line)
                    done[job.name, line["side"]] = line
        for worker in rehearser.workers.values():
            worker.close()
    return 0


def _mine(rehearser: Rehearser, job: Job, done: dict[tuple[str, str], Side]) -> Iterator[Side]:
    if (job.name, "rehearse") not in done:
        about = {"job": job.name, "env": job.env, "side": "rehearse", "known": job.known}
        yield {**about, "test": job.test, **rehearser.ask(job)}


def _theirs(job: Job, done: dict[tuple[str, str], Side], shares: bool) -> Iterator[Side]:
    """Real ranks, where nobody knows what they do or by how much they are off."""
    mine = done.get((job.name, "rehearse"))
    asked = job.real or (real.of_run(job.run) if job.run else odd.of_known(job))
    if asked is None or mine is None or (mine["verdict"] == "cannot tell" and job.run):
        return
    wanted = not job.known or (shares and job.known == mine["verdict"] == known.WRONG)
    if not wanted or (job.name, "real") in done:
        return
    about = {"job": job.name, "env": job.env, "side": "real", "known": job.known}
    found = real.ranks(asked, mine["verdict"])
    if "on" in job.passes and found["verdict"] != known.RIGHT:
        on = real.ranks(asked, mine.get("on", ""), guard=True)
        found |= {"on": on["verdict"], "on_why": on["why"]}
    differs = job.forced
    if job.run and (rows := drawn.FORCED.get(job.run.data)):
        differs = real.of_run(replace(job.run, data=rows))
    whose = mine.get("order", LOADER)
    if whose not in (LOADER, NAME, RESUMED) and differs and found["verdict"] == known.RIGHT:
        forced = real.ranks(differs, mine["verdict"])
        found |= {"order": mine["order"], "forced": forced["verdict"], "forced_why": forced["why"]}
    yield {**about, **found}


def _write(line: Side) -> None:
    line = {key: _PLACES.sub("…/", value) if isinstance(value, str) and key != "test" else value
            for key, value in line.items()}  # fmt: skip
    with RECORDS.open("a") as file:
        file.write(json.dumps(line) + "\n")
    known = f" ({line['known']})" if line["known"] else ""
    known += f", guard on: {line['on']}" if "on" in line else ""
    forced = f", {line['order']}: {line.get('forced', '')}" if line.get("order") else ""
    print(f"{time.strftime('%H:%M:%S')} {line['seconds']:5.0f} s {line['side']} {line['verdict']}"
          f"{forced}{known}: {line['job']} {line['why'][:160]}", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
