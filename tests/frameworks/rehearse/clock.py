"""How long a rehearsal takes: to the first verdict, and guard off, on and reference together.

    python -m tests.frameworks.rehearse.clock ENVIRONMENT [--jobs 12] [--seed 0]

Wall time after the framework's imports (the worker is warm; its first job, which pays for them, is
not counted), the command read anew each time. On an idle machine, or the figures say nothing:
the load before each job stands beside them, in docs/data/rehearse_clock.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import time
from dataclasses import replace
from typing import Any

from tests.frameworks.rehearse import jobs, known
from tests.kit import envs
from vlmguard.check import script
from vlmguard.check.reading.named_files import Files
from vlmguard.rehearse import client
from vlmguard.rehearse.prepare import prepare

RECORDS = envs.ROOT / "docs" / "data" / "rehearse_clock.jsonl"


def one(rehearser: jobs.Rehearser, job: known.Job) -> dict[str, Any]:
    """Seconds to the first verdict and to the last, and the largest rank's memory in MB."""
    scratch, folder = rehearser.place / job.name, rehearser.place / "work"
    for each in (scratch, folder):
        each.mkdir(exist_ok=True)
    line, files = job.line()
    for name, text in files.items():
        (folder / name).write_text(text)
    os.chdir(folder)
    load, begun, first = os.getloadavg()[0], time.monotonic(), []
    reading = script.of_words(shlex.split(line), os.environ)
    found = prepare(
        reading.jobs[0], Files(str(folder), reading.files), reading.trace, scratch, None, False
    )
    request = replace(found.request, passes=("off", "on"))
    if request.adapter not in rehearser.workers:
        rehearser.workers[request.adapter] = client.Worker(request.adapter, rehearser.place)

    def hear(event: dict[str, Any]) -> None:
        if event["event"] == "judged" and event["pass"] == "guard off":
            first.append(time.monotonic() - begun)

    answer = rehearser.workers[request.adapter].ask(request, hear)
    return {"job": job.name, "verdict": answer["verdict"], "load": round(load, 1),
            "first": round(first[0], 1) if first else None,
            "all": round(time.monotonic() - begun, 1), "rss": answer.get("rss")}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", choices=("swift", "trl", "llamafactory", "flagembedding"))
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    found = sorted(jobs.jobs(asked.env), key=lambda job: job.name)
    drawn = random.Random(asked.seed).sample(found, min(asked.jobs + 1, len(found)))
    with client.place() as place:
        rehearser = jobs.Rehearser(place)
        for number, job in enumerate(drawn):
            told = {"env": asked.env, **one(rehearser, job)}
            if number and told["first"] is not None:  # the first one pays for the imports
                with RECORDS.open("a") as records:
                    records.write(json.dumps(told) + "\n")
            print(json.dumps(told), flush=True)
        for worker in rehearser.workers.values():
            worker.close()


if __name__ == "__main__":
    main()
