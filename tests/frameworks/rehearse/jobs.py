"""`make rehearse-jobs`: what `rehearse` says of a command beside what real gloo ranks do with it.

    python -m tests.frameworks.rehearse.jobs rehearse|real|both [--minutes 30] [--only TEXT]

The jobs: the commands of tests/frameworks/swift whose outcome its tests establish, then others
drawn over model class, strategy, tuning and rows, each with real ranks of its own. Resumable: a
line of docs/data/rehearse_jobs.jsonl for each side; docs/rehearsals.md compares the two.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.frameworks.rehearse import tasks
from tests.frameworks.swift import campaign
from tests.frameworks.swift.cases import CASES, HEALTHY, NO_CHECKPOINTS, ONCE, REDUCED
from tests.frameworks.swift.classes import (
    FULL,
    LORA,
    PLAIN,
    RUNS,
    SAME,
    SFT,
    SIZES,
    TRAINED,
    UNFINISHED,
    Run,
)
from tests.kit import envs, swift
from tests.kit.models.families import FAMILIES
from tests.kit.runs import KIT
from vlmguard.check import script
from vlmguard.check.files import Files
from vlmguard.rehearse import client
from vlmguard.rehearse.prepare import Refused, prepare

RECORDS = envs.ROOT / "docs" / "data" / "rehearse_jobs.jsonl"
DRAWN, SEED = 120, 11
_WORDS = {"right": "right", "wrong": "silently wrong", "hang": "hang", ONCE: "crash",
          REDUCED: "crash", UNFINISHED: "crash", SIZES: "hang"}  # fmt: skip
"""What tests/frameworks/swift expects → rehearse's word; other words there name where ranks part,
which is a hang without torch's own comparison of collectives. Of sizes that do not fit gloo alone
has a word; NCCL would wait."""


def jobs() -> dict[str, tuple[Run, str]]:
    """Name → command, and what real ranks are known to do; "" where they have to be asked."""
    found: dict[str, tuple[Run, str]] = {}
    for case in CASES:
        if case.env == "swift" and not case.over:
            reference = case.right() if case.broken == "wrong" else []
            run = Run(case.name, case.verb, case.model, case.data, case.flags, case.broken, "right",
                      reference)  # fmt: skip
            found[case.name] = run, _WORDS[case.broken]
    for healthy in HEALTHY:
        run = Run(f"healthy-{healthy.name}", healthy.verb, healthy.model, healthy.data,
                  healthy.flags, "right", "right", [*healthy.flags, *NO_CHECKPOINTS])  # fmt: skip
        found[run.name] = run, "right"
    for run in RUNS:
        found[f"class-{run.name}"] = run, _WORDS.get(run.off, "hang")
    return found | {run.name: (run, "") for run in [*tasks.made(), *drawn()]}


def drawn() -> list[Run]:
    """Commands that no test names."""
    tunings = {"trained": TRAINED, "full": FULL, "lora": LORA}
    every = [(model, how, tuning, data) for model in FAMILIES for how in (0, 1, 2, 3)
             for tuning in tunings for data in ("image", "mixed", "text")]  # fmt: skip
    made = []
    for model, stage, tuning, data in random.Random(SEED).sample(every, DRAWN):
        flags = tunings[tuning]
        own = f"zero{stage}" if stage == 1 else str(KIT / "deepspeed" / f"zero{stage}.json")
        config = ["--deepspeed", own] if stage else []
        name = f"drawn-{model}-{f'zero{stage}' if stage else 'ddp'}-{tuning}-{data}"
        made.append(Run(name, SFT, model, data, [*flags, *config], "", "", [*flags, *PLAIN],
                        extra=SAME if tuning == "lora" else {}))  # fmt: skip
    return made


def rehearsed(worker: client.Worker, place: Path, run: Run) -> dict[str, Any]:
    """The guard off, two ranks and the reference."""
    flags = [flag.replace("{data}", str(swift.dataset())) for flag in run.flags]
    words = swift.command(run.verb, run.model, run.data, flags)
    line = shlex.split(f"NPROC_PER_NODE={run.world} MAX_PIXELS=16384 swift") + words
    reading = script.of_words(line, os.environ)
    scratch = place / run.name
    scratch.mkdir()
    begun = time.monotonic()
    try:
        files = Files(os.getcwd(), reading.files)
        prepared = prepare(reading.jobs[0], files, reading.trace, scratch, None, False)
        request = replace(prepared.request, passes=("off",), limit=240.0)
        answer = worker.ask(request, lambda _: None)
    except Refused as refused:
        return {"verdict": "cannot tell", "why": str(refused), "seconds": 0.0}
    off = answer.get("off") or {}
    told = {name: off[name] for name in ("order", "step", "off", "error", "message", "sites")
            if off.get(name)}  # fmt: skip
    shares = [error for _, error in off.get("tensors", ())]
    return {"verdict": answer["verdict"], "why": answer.get("why", ""), **told, "shares": shares,
            "seconds": round(time.monotonic() - begun, 1)}  # fmt: skip


def real(run: Run) -> dict[str, Any]:
    """Real ranks, judged by the test kit's own oracle."""
    done = campaign.start(run, run.flags, False)
    word, evidence = campaign.judged(run, done)
    if word == "crash" and "gloo/transport" in done.output and "Error" not in evidence:
        word = "hang"  # the other side of ranks that parted
    told = {"verdict": _WORDS.get(word, word), "why": evidence[:600], "seconds": done.seconds}
    if word == "wrong":
        reference = campaign.start(run, run.reference, False)
        verdict = campaign.compare(done.ranks, reference.ranks, world=run.world)
        told["shares"] = [error for error, _ in verdict.worst[:5]]
    return told


def read() -> dict[tuple[str, str], dict[str, Any]]:
    """The newest line of each job and side."""
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    every = [json.loads(line) for line in lines]
    return {(one["job"], one["side"]): one for one in every}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("rehearse", "real", "both"))
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--only", default="", help="a pattern for names of jobs")
    asked = parser.parse_args()
    until = time.monotonic() + asked.minutes * 60
    for side in ("rehearse", "real"):
        if asked.side in (side, "both"):
            _work(side, asked.only, until)
    return 0


def _work(side: str, only: str, until: float) -> None:
    """Jobs of that side without a line: the real side of those that were rehearsed and not known,
    and of all that are silently wrong, for the shares."""
    done = read()
    with client.place() as place:
        worker = client.Worker("vlmguard_swift", place) if side == "rehearse" else None
        for name, (run, known) in jobs().items():
            if time.monotonic() > until:
                break
            if not re.search(only, name) or (name, side) in done:
                continue
            if side == "real" and not _wanted(done, name, known):
                continue
            try:
                told = rehearsed(worker, place, run) if worker else real(run)
            except client.Ended as ended:
                worker = client.Worker("vlmguard_swift", place)
                told = {"verdict": "cannot tell", "why": str(ended), "seconds": 0.0}
            line = {"job": name, "side": side, "known": known, **told}
            with RECORDS.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{told['seconds']:5.0f} s {side} {told['verdict']} ({known or '?'}): {name} "
                  f"{told['why'][:120]}", flush=True)  # fmt: skip
        if worker:
            worker.close()


def _wanted(done: Mapping[tuple[str, str], Any], name: str, known: str) -> bool:
    mine = done.get((name, "rehearse"))
    return mine is not None and mine["verdict"] != "cannot tell" and known in ("", "silently wrong")


if __name__ == "__main__":
    sys.exit(main())
