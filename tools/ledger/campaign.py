"""Runs silent errors and healthy variants and keeps what the ledger said of each: `make ledger`.

    python -m tools.ledger.campaign [--what injections|healthy] [--only WORD] [--until 20:45]

LEDGER_PACKAGES is a folder with galore-torch and bitsandbytes (`pip install --no-deps --target`).
They are too large for the environments of the tests; without them their variants are left out.

Resumable: a record a run in docs/data/ledger.jsonl; one of other sources is made again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.ledger import commands, said
from tools.ordinary import campaign as ordinary
from tools.ordinary.campaign import Worker

ROOT = Path(__file__).resolve().parents[2]
RECORDS = Path(os.environ.get("LEDGER_RECORDS", ROOT / "docs" / "data" / "ledger.jsonl"))
RULES = "VG1=off,VG2=off,VG3=off,VG4=off"
"""The ledger has to tell it: the rules that know some of these errors by name are off."""
ONLY_SHOWN = ("end_never_a_target",)
"""Errors of other kinds that a note tells: they are right in some runs."""
LIMIT = 120.0
WORKER = ("-m", "tools.ledger.worker")
Answer = dict[str, Any]


class Bench:
    """Workers by mode, started when they are first asked, and a folder for what runs leave."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, dict[str, Worker]()

    def worker(self, mode: str) -> Worker:
        """Without the guard ("off"), or with the ledger as a user has it ("guard")."""
        found = self.workers.get(mode)
        if found is None or found.process.poll() is not None:
            around = ordinary.variables("trl", "on" if mode == "guard" else "off", self.folder)
            around |= {"VLMGUARD_RULES": RULES, "VLMGUARD_LEDGER": "1"} if mode == "guard" else {}
            around["PYTHONPATH"] += os.pathsep + os.environ.get("LEDGER_PACKAGES", "")
            around["LEDGER"], log = mode, self.folder / f"{mode}.log"
            found = self.workers[mode] = Worker("trl", WORKER, around, log)
        return found

    def run(self, mode: str, job: Mapping[str, Any]) -> Answer:
        """How the run ended."""
        worker = self.worker(mode)
        worker.ask({"limit": LIMIT, **job})
        return worker.answer(LIMIT + 60)

    def known(self) -> dict[str, Any]:
        """Injections and variants, as the worker has them."""
        return self.worker("guard").ready

    def place(self, name: str) -> Path:
        """A new folder for one run."""
        return Path(tempfile.mkdtemp(prefix=f"{name.replace(' ', '-')}-", dir=self.folder))


@contextlib.contextmanager
def working() -> Iterator[Bench]:
    """A bench that goes with its folder."""
    folder = Path(tempfile.mkdtemp(prefix="ledger-"))
    bench = Bench(folder)
    try:
        yield bench
    finally:
        for worker in bench.workers.values():
            worker.close()
        shutil.rmtree(folder, ignore_errors=True)


def inject(bench: Bench, name: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """The record of an injection: the healthy run, then the one with the error in it."""
    told: dict[str, Any] = {"what": "injection", "name": name, **known, "sources": sources()}
    job = {"what": "injection", "name": name, "world": known["world"]}
    healthy, place, began = _staged(bench, {**job, "faulty": False}, known["stages"])
    if healthy["verdict"] != "ok":
        return told | {"verdict": "broken", "why": _error(healthy)}
    faulty, other, later = _staged(bench, {**job, "faulty": True}, known["stages"], str(place))
    if faulty["verdict"] != "ok":
        return told | {"verdict": "broken", "why": _error(faulty)}
    right, wrong = said.records(place, began), said.records(other, later)
    found = said.judge(known, right, wrong)
    apart = faulty["ranks"][-1]["account"]["apart"]
    if not apart["differ"]:
        found["verdict"] = "changes nothing"
    return told | found | {"apart": apart, "alarms": [*said.alarms(right), *said.faults(place)]}


def _staged(
    bench: Bench, job: Mapping[str, Any], stages: int, other: str = ""
) -> tuple[Answer, Path, float]:
    place = bench.place(job["name"])
    for stage in range(stages):
        last, began = stage == stages - 1, time.time()
        answer = bench.run(
            "guard", {**job, "stage": stage, "folder": str(place), "other": other if last else ""},
        )
        if answer["verdict"] != "ok":
            break
    return answer, place, began


def healthy(bench: Bench, name: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a healthy variant: without the guard and with it, compared bit by bit."""
    told: dict[str, Any] = {"what": "healthy", "name": name, **known, "sources": sources()}
    job = {"what": "healthy", "name": name, "world": known["world"], "faulty": False, "stage": 0}
    off = bench.run("off", {**job, "folder": str(bench.place(name))})
    if off["verdict"] != "ok":
        return told | {"verdict": "not healthy", "why": _error(off)}
    place = bench.place(name)
    on = bench.run("guard", {**job, "folder": str(place)})
    if on["verdict"] != "ok":
        return told | {"verdict": "stopped", "why": _error(on)}
    records = said.records(place)
    same = [rank["account"] for rank in on["ranks"]] == [rank["account"] for rank in off["ranks"]]
    alarms = [*said.alarms(records), *said.faults(place)]
    verdict = "changed" if not same else "alarm" if alarms else "quiet"
    return told | {"verdict": verdict, "alarms": alarms, "notes": said.notes(records),
                   "stations": said.states(records), "windows": len(records),
                   "seconds": [off["seconds"], on["seconds"]]}  # fmt: skip


def _error(answer: Answer) -> str:
    errors = [rank["error"] for rank in answer["ranks"] if rank["error"]]
    return f"{answer['verdict']}: {(errors or [''])[0][:300]}"


def sources() -> str:
    """Changes with every edit of the guard or of this campaign."""
    digest = hashlib.sha256(ordinary.sources().encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if not file.name.startswith("test_"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:10]


def records() -> dict[tuple[str, str], dict[str, Any]]:
    """What is known, by what and name."""
    lines = RECORDS.read_text("utf-8").splitlines() if RECORDS.exists() else []
    return {(told["what"], told["name"]): told for told in map(json.loads, lines)}


def keep(told: Mapping[str, Any]) -> None:
    """Write a record among the others."""
    found = {**records(), (told["what"], told["name"]): told}
    half = RECORDS.with_suffix(".half")
    half.write_text("".join(json.dumps(found[key]) + "\n" for key in sorted(found)), "utf-8")
    half.replace(RECORDS)


def main() -> int:
    """Everything that has no record of these sources yet."""
    options = _options()
    until = ordinary.until(options.until)
    with working() as bench:
        for what, name, known in _wanted(bench.known(), options):
            kept = records().get(("healthy" if what == "healthy" else "injection", name))
            if time.time() >= until:
                break
            if kept and kept["sources"] == sources() and not options.again:
                continue
            try:
                told = _made(bench, what, name, known)
            except RuntimeError as error:
                print(f"{name}: no verdict: {error}", flush=True)
                continue
            keep(told)
            print(said.line(told), flush=True)
            _sweep(bench)
    return 0


def _made(bench: Bench, what: str, name: str, known: Mapping[str, Any]) -> dict[str, Any]:
    if what == "command":
        return commands.inject(name, RULES) | {"sources": sources()}
    return (inject if what == "injection" else healthy)(bench, name, known)


def _sweep(bench: Bench) -> None:
    for folder in bench.folder.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)


def _wanted(
    known: Mapping[str, Any], options: argparse.Namespace
) -> Iterator[tuple[str, str, Any]]:
    every = {**known, "command": dict.fromkeys(commands.CODES)}
    for what in ("injection", "command", "healthy"):
        if options.what.startswith(what[:6]) or not options.what:
            for name, told in every[what].items():
                if not options.only or any(word in name for word in options.only):
                    yield what, name, told


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", default="", choices=("", "injections", "commands", "healthy"))
    parser.add_argument(
        "--only", nargs="*", default=[], help="names with any of these words in them"
    )
    parser.add_argument("--until", default="", help="stop at this time of the clock, HH:MM")
    parser.add_argument("--again", action="store_true", help="make records again")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
