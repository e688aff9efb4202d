"""24 cells through real commands: `swift`, a plain Trainer's train.py, ColossalAI's booster.

    python -m tools.matrix.commands [--only REGEX] [--again]

Each is run with the guard off, with it on, and once as a reference: a run that is known to be right
(plain DDP that looks for unused parameters; under Gemini plain torch in one process). They are the
commands of tests/frameworks, judged there one by one; here a line of each is kept in
compat/commands.jsonl. Resumable.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.frameworks.advice import cases as advice
from tests.frameworks.colossalai import cases as gemini
from tests.frameworks.colossalai import halves, launch
from tests.frameworks.swift import campaign as swift
from tests.frameworks.swift.classes import BY_NAME
from tests.frameworks.trainers.cases import CASES
from tests.kit import forked, oracle, runs
from tests.kit.trainers import Command
from tools.matrix.campaign import commit

FILE = Path(__file__).resolve().parents[2] / "compat" / "commands.jsonl"
SWIFT = (
    "llava-zero3", "llava-lora-zero3", "llava-zero3-mixed-eval", "llava-zero3-accumulated",
    "llava_next-zero2", "llava_onevision-zero3", "gemma3-zero3", "paligemma-zero2", "idefics3-ddp",
    "mllama-frozen-ddp", "minicpmv4_6-zero3", "qwen3_5-zero3", "llava-fsdp2",
)  # fmt: skip
PLAIN = ("plain-mixed", "plain-zero3-phases", "plain-zero3-iv-reentrant",
         "plain-zero3-phases-llava", "plain-zero3-iv-qwen2_5")  # fmt: skip
ADVICE = ("fsdp2", "careless")
GEMINI = ("qwen-2", "qwen-silent-2", "qwen-window-2", "qwen-hang")
WORDS = {"right", "wrong", "hang", "crash", "stopped", "mismatch"}
Told = tuple[str, str, list[str]]
"""Verdict, evidence, what the guard did."""


@dataclass(frozen=True)
class Entry:
    """Attributes:
    through: whose command it is.
    words: what is asked of it.
    """

    name: str
    through: str
    words: str
    measure: Callable[[], tuple[Told, Told]]


def entries() -> list[Entry]:
    found = [_swift(name) for name in SWIFT]
    found += [_plain(name, *both) for name, both in _of_trainers().items()]
    by_name = {case.name: case for case in gemini.CASES}
    return [*found, *(_gemini(by_name[name]) for name in GEMINI)]


def _swift(name: str) -> Entry:
    run = BY_NAME[name]

    def measure() -> tuple[Told, Told]:
        told = []
        for guard in (False, True):
            done = swift.outcome(run, guard)
            word, evidence = swift.judged(run, done)
            told.append((_plainly(word, evidence), evidence, _did(done.findings)))
        return told[0], told[1]

    return Entry(name, "swift", f"{run.model}, {run.data}, {_flags(run.flags)}", measure)


def _plain(name: str, command: Command, reference: Command) -> Entry:
    def measure() -> tuple[Told, Told]:
        off, on, right = (_trainers()[f"{name} {side}"] for side in ("off", "on", "reference"))
        if right.verdict != "ok":
            raise RuntimeError(f"no reference: {right.message}")
        return _forked(off, right), _forked(on, right)

    start = next(n for n, word in enumerate(command.words) if word.endswith("train.py"))
    asked = [word for word in command.words[start + 1 :] if word != "{model}"]
    told = f"{command.model}, {asked[asked.index('--data') + 1]}, {_flags(asked)}"
    return Entry(name, "train.py", told, measure)


def _of_trainers() -> dict[str, tuple[Command, Command]]:
    """Name → a command and the right run of it."""
    found = {name: (CASES[name].command, CASES[name].reference) for name in PLAIN}
    failing = {f"plain-{name}": advice.FAILING[name] for name in ADVICE}
    return found | {name: (each.command, each.reference) for name, each in failing.items()}


@functools.cache
def _trainers() -> dict[str, forked.Forked]:
    """All of them, in two processes that import once."""
    same = {"VLMGUARD_TEST_SAME_ADAPTERS": "1"}
    jobs = []
    for name, (command, reference) in _of_trainers().items():
        for side, each in (("off", command), ("on", command), ("reference", reference)):
            jobs.append(forked.Job(f"{name} {side}", each, same, guard=side == "on"))
    return forked.run(jobs, runs.session() / "commands")


def _forked(done: forked.Forked, reference: forked.Forked) -> Told:
    did = _did(done.findings)
    if any("stopped" in each for each in did):
        return "stopped", done.message, did
    if done.verdict != "ok":
        return done.verdict, done.message, did
    verdict = oracle.compare(done.ranks, reference.ranks)
    return ("right" if verdict else "wrong"), _worst(verdict), did


@functools.cache
def _boosters(side: str) -> launch.Done:
    """The runs of one side that end by themselves, in one launch."""
    chosen = [case for case in gemini.CASES if case.name in GEMINI]
    if side == "off":
        chosen = [case for case in chosen if case.broken != gemini.HANG]
    wishes = [getattr(case, side) for case in chosen]
    return launch.run(wishes, guard=side == "on", world=2, limit=600.0)


def _gemini(case: gemini.Case) -> Entry:
    def measure() -> tuple[Told, Told]:
        reference = _boosters("reference").weights(f"{case.name}-reference")
        if case.broken == gemini.HANG:
            off = launch.run([case.off], guard=False, world=case.world, limit=90.0)
        else:
            off = _boosters("off")
        both = [_booster(done, case, reference) for done in (off, _boosters("on"))]
        return both[0], both[1]

    steps = json.dumps(case.wish["steps"])
    rest = ", ".join(f"{k} {v}" for k, v in case.wish.items() if k != "steps")
    return Entry(f"gemini-{case.name}", "booster", ", ".join(filter(None, (steps, rest))), measure)


def _booster(done: launch.Done, case: gemini.Case, reference: Any) -> Told:
    did = _did(done.records(case.name))
    if done.hung:
        return "hang", "no rank came back", did
    ranks = done.ranks(case.name)
    failed = next((rank["error"] for rank in ranks if "error" in rank), "")
    if failed or len(ranks) < case.world:
        return ("stopped" if "stopped" in " ".join(did) else "crash"), failed[:200], did
    verdict = halves.compare(done.weights(case.name), reference, world=case.world)
    return ("right" if verdict else "wrong"), _worst(verdict), did


def _plainly(word: str, evidence: str) -> str:
    """A finding's code is a stop; collectives that part are a hang that was told in time."""
    if word.startswith("VG"):
        return "stopped"
    return "hang" if word == "crash" and "mismatch between collectives" in evidence else word


def _plain(evidence: str) -> str:
    """One line, in which a file has its name alone."""
    line = " ".join(evidence.split())
    return re.sub(r"(?:/[\w.+-]+){2,}", lambda path: path[0].rpartition("/")[2], line)


def _worst(verdict: Any) -> str:
    return f"worst {verdict.worst[0][0]:.1e}" if verdict.worst else "; ".join(verdict.faults[:1])


def _did(findings: Iterable[dict[str, Any]]) -> list[str]:
    return sorted({f"{found['code']} {found['outcome']}".strip() for found in findings})


def _flags(words: Sequence[str]) -> str:
    """What of a command tells it from others, in a few words."""
    text = " ".join(words)
    strategy = next((s for s in ("zero3", "zero2", "fsdp") if s in text), "ddp")
    marks = {"lora": "LoRA", "accumulation_steps 2": "two micro-batches",
             "eval_strategy": "evaluation", "use_reentrant\": true": "reentrant checkpointing",
             "--careless": "a loss that ignores the number of tokens"}  # fmt: skip
    plainly = text.replace("--lora_", "")
    return ", ".join([strategy, *(say for mark, say in marks.items() if mark in plainly)])


def load() -> dict[str, dict[str, Any]]:
    """Name → record."""
    lines = FILE.read_text("utf-8").splitlines() if FILE.exists() else []
    return {told["command"]: told for told in map(json.loads, lines)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--again", action="store_true", help="measure recorded ones, too")
    options = parser.parse_args()
    faults = 0
    for entry in entries():
        if not re.search(options.only, entry.name) or (entry.name in load() and not options.again):
            continue
        try:
            off, on = entry.measure()
            if strange := {off[0], on[0]} - WORDS:
                raise RuntimeError(f"{strange}: {off[1]} {on[1]}")
        except Exception as error:  # a fault of the tool is not a verdict
            print(f"{entry.name}: no verdict: {type(error).__name__}: {error}"[:600], flush=True)
            faults += 1
            continue
        put(entry, off, on)
        print(f"{entry.name}: {off[0]} → {on[0]} ({on[1]})", flush=True)
    return 1 if faults else 0


def put(entry: Entry, off: Told, on: Told) -> None:
    """Keep it, in the order of `entries`."""
    sides = [
        {"verdict": word, "message": _plain(evidence)[:200], "did": did}
        for word, evidence, did in (off, on)
    ]
    kept = load()
    kept[entry.name] = {"command": entry.name, "through": entry.through, "asks": entry.words,
                        "off": sides[0], "on": sides[1], "commit": commit()}  # fmt: skip
    order = [each.name for each in entries()]
    known = [kept[name] for name in order if name in kept]
    part = FILE.with_suffix(".part")
    part.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in known))
    os.replace(part, FILE)


if __name__ == "__main__":
    sys.exit(main())
