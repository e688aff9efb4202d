"""``make faults``: in real two-rank runs every function of ours raises, returns a wrong type, or
sleeps, one at a time.

    python -m tools.faults.campaign [--seed N] [--count N] [--minutes N] [SCENARIO …]

``--count`` is of each framework.

The functions are those that each run was seen to call. A healthy run has to be, to the last bit,
what it is without vlmguard; one that goes wrong without it has to be as with it, as without it, or
stopped by one of ours that says why. Results are kept in results.jsonl and not made again.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit import envs, runs
from tools.faults.elsewhere import OTHERS
from tools.faults.outside import OUTSIDE
from tools.faults.scenarios import PRELOAD, SCENARIOS, Scenario

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
LIMIT = 400.0
"""Seconds that a run may take on a busy machine; one that stands still is told long before."""
KINDS = ("raises", "sleeps", "a word", "a number", "nothing", "a list", "an object")
ALL = (0, 1)
"""A function fails on all ranks, or on one alone: then the other must not wait for it for ever."""
Answer = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """One function, upset in one way, on some ranks."""

    scenario: str
    target: str
    kind: str
    ranks: tuple[int, ...]

    @property
    def key(self) -> str:
        text = "\0".join([self.scenario, self.target, self.kind, str(self.ranks)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Warm:
    """A process of a framework's environment that forks ranks; see `warm`."""

    def __init__(self, env: str, guard: bool) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="vlmguard-faults-"))
        for each in ("home", "tmp"):
            (self.home / each).mkdir()
        self.variables = runs.variables(env, self.home, guard)
        path = [str(envs.ROOT), str(envs.ROOT / "plugins"), str(runs.KIT / "programs")]
        if env == "llamafactory":
            path.append(str(runs.KIT / "stubs"))
        self.variables["PYTHONPATH"] = os.pathsep.join([self.variables["PYTHONPATH"], *path])
        self.variables |= {"CI": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "NPROC_PER_NODE": "2",
                           "DISABLE_VERSION_CHECK": "0"}  # fmt: skip
        self.log = (self.home / "log").open("w")
        self.process = subprocess.Popen(
            [envs.program(env), str(HERE / "warm.py")], env=self.variables, cwd=self.home,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )  # fmt: skip
        self.wrappers: list[str] = self._ask(PRELOAD[env])

    def _ask(self, question: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the warm process ended:\n{self.tail()}")
        return json.loads(line)

    def tail(self) -> str:
        return (self.home / "log").read_text(errors="replace")[-4000:]

    def run(
        self, scenario: Scenario, fault: Fault | None = None, watch: bool = False,
        before: str = "", also: Sequence[str] = (), **environment: str,
    ) -> Answer:  # fmt: skip
        """One run; ``reached`` of the answer are the functions that it was seen to call, or the
        one that was upset, each with the ranks that called it, ``codes`` what was found."""
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self.home))
        try:
            for each in ("home", "work", "tmp", "report"):
                (folder / each).mkdir()
            for name, text in scenario.files().items():
                (folder / "work" / name).write_text(text, encoding="utf-8")
            given = {
                "HOME": str(folder / "home"),
                "TMPDIR": str(folder / "tmp"),
                "VLMGUARD_TEST_CAPTURE": str(folder / "capture"),
                "VLMGUARD_REPORT": str(folder / "report" / "findings.jsonl"),
                **scenario.environment,
                **environment,
            }
            job = {
                "folder": str(folder), "environment": given, "words": [*scenario.words(), *also],
                "limit": LIMIT, "watch": watch, "before": before,
                "fault": [fault.kind, fault.target, fault.ranks] if fault else None,
            }  # fmt: skip
            answer: Answer = self._ask(job)
            answer["reached"] = _reached(folder)
            answer["codes"] = _codes(folder / "report")
            answer["guarded"] = bool(_records(folder / "report", "header"))
            loaded = folder / "modules0"
            if loaded.exists():  # imported once here, not in every later rank
                self.wrappers = self._ask(json.loads(loaded.read_text()))
            return answer
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(LIMIT)
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)


def _reached(folder: Path) -> dict[str, tuple[int, ...]]:
    """The ranks that called each function."""
    ranks: dict[str, tuple[int, ...]] = {}
    for rank in ALL:
        file = folder / f"reached{rank}"
        for name in sorted(set(file.read_text().split())) if file.exists() else []:
            ranks[name] = (*ranks.get(name, ()), rank)
    return ranks


def _codes(folder: Path) -> list[str]:
    found = _records(folder, "finding")
    return sorted({f"{each['code']} {each['outcome']}".strip() for each in found})


def _records(folder: Path, kind: str) -> list[Answer]:
    """Lines of one kind of all ranks' reports."""
    files = [file for file in folder.glob("*.jsonl") if not file.is_symlink()]  # not /dev/full
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def trained(answer: Answer) -> list[Any] | None:
    """What every rank trained to; None if one did not."""
    if answer["verdict"] != "ok" or not all(rank["value"] for rank in answer["ranks"]):
        return None
    return [rank["value"] for rank in answer["ranks"]]


def reasons(answer: Answer) -> list[str]:
    """The first line of what each rank died of."""
    lines = (rank["error"].strip().splitlines() for rank in answer["ranks"])
    return [each[0][:300] for each in lines if each]


def judged(scenario: Scenario, off: Answer, on: Answer, now: Answer) -> tuple[bool, str]:
    """Whether a run did no harm, and what became of it."""
    result, without, with_us = trained(now), trained(off), trained(on)
    if result is not None:
        if result == without:
            return True, "as without vlmguard"
        if not scenario.healthy and result == with_us:
            return True, "mended"
        return False, "trained to something else"
    told = reasons(now)
    stops = [line for line in told if "vlmguard stopped this run" in line]
    if stops and not scenario.healthy:
        return True, f"stopped: {stops[0].partition('). ')[2][:90]}"
    if stops and any("VG406" in line for line in stops):
        return True, "stopped: ranks that would not decide alike (VG406)"
    if without is None and now["verdict"] == off["verdict"]:
        alike = {line[:80] for line in reasons(off)} & {line[:80] for line in told}
        if alike or off["verdict"] == "hang":
            return True, "fails as without vlmguard"
    return False, f"{now['verdict']}: {' | '.join(told) or 'no reason'}"


def functions(on: Answer, wrappers: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """What can be upset of the functions that a run called, and the ranks that called each."""
    named = (each for each in sorted(on["reached"]) if "<" not in each and each not in wrappers)
    return {each: on["reached"][each] for each in named if not each.startswith(OUTSIDE)}


def drawn(known: dict[str, dict[str, tuple[int, ...]]], seed: int) -> list[Fault]:
    """Every function of every scenario in every way, on ranks that call it; first each of them in
    one way."""
    chance = random.Random(seed)
    rounds: list[list[Fault]] = [[] for _ in KINDS]
    for name, targets in known.items():
        for target, callers in targets.items():
            kinds = chance.sample(KINDS, len(KINDS))
            for number, kind in enumerate(kinds):
                alone = callers[-1:]
                ranks = alone if kind == "sleeps" else chance.choice((ALL, alone))
                rounds[number].append(Fault(name, target, kind, ranks))
    for each in rounds:
        chance.shuffle(each)
    return [fault for each in rounds for fault in each]


def results() -> dict[str, Answer]:
    if not RESULTS.exists():
        return {}
    rows = [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()]
    return {row["key"]: row for row in rows}


def keep(row: Answer) -> None:
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def both(env: str) -> tuple[Warm, Warm]:
    """A process without vlmguard and one with it; they import at the same time."""
    with ThreadPoolExecutor(2) as pool:
        bare, warm = pool.map(functools.partial(Warm, env), (False, True))
    return bare, warm


def baselines(names: Sequence[str], bare: Warm, warm: Warm) -> dict[str, tuple[Answer, Answer]]:
    """Without vlmguard, and with it and nothing upset; both have to be what they should. The first
    process is ended."""
    made = {}
    with ThreadPoolExecutor(1) as pool:
        waiting = {name: pool.submit(bare.run, SCENARIOS[name]) for name in names}
        watched = {name: _settled(warm, SCENARIOS[name]) for name in names}
        without = {name: each.result() for name, each in waiting.items()}
    bare.close()
    for name in names:
        scenario, off, on = SCENARIOS[name], without[name], watched[name]
        right = trained(on) is not None and (not scenario.healthy or trained(on) == trained(off))
        broken = scenario.healthy or trained(off) != trained(on)
        many = len(functions(on, warm.wrappers))
        print(f"{name}: {many} functions, off {off['verdict']}, on {on['verdict']} in "
              f"{on['seconds']} s, processor {off['processor']} and "
              f"{on['processor']} s, {' '.join(on['codes'])}", flush=True)  # fmt: skip
        if not (right and broken) or any(code.startswith("VG902") for code in on["codes"]):
            print(f"  not what it should be: {reasons(off)} {reasons(on)} {trained(off)} "
                  f"{trained(on)} {on['ranks'][0]['output'][-1500:]}", flush=True)  # fmt: skip
            continue
        made[name] = (off, on)
    return made


def _settled(warm: Warm, scenario: Scenario) -> Answer:
    """A run whose modules were imported before: what an import calls, no later run calls again."""
    warm.run(scenario, watch=True)
    return warm.run(scenario, watch=True)


def campaign(names: Sequence[str], seed: int, count: int, minutes: float) -> int:
    """Returns how many did harm."""
    kept = results()
    until = time.monotonic() + 60 * minutes
    harm = total = 0
    for env in dict.fromkeys(SCENARIOS[name].env for name in names):
        made, mine = 0, [name for name in names if SCENARIOS[name].env == env]
        bare, warm = both(env)
        bases = baselines(mine, bare, warm)
        every = drawn(
            {name: functions(on, warm.wrappers) for name, (_, on) in bases.items()}, seed
        )
        for fault in every:
            if made >= count or time.monotonic() > until:
                break
            if fault.key in kept:
                continue
            row = tried(warm, fault, bases[fault.scenario])
            if closed(row):
                continue
            made, total = made + 1, total + 1
            harm += not row["ok"]
            keep(row)
            mark = "" if row["ok"] else "HARM "
            print(f"{mark}{fault.scenario} {fault.target} {fault.kind} on {list(fault.ranks)}: "
                  f"{row['outcome']} ({row['seconds']} s, of processor {row['processor']})",
                  flush=True)  # fmt: skip
        warm.close()
    print(f"seed {seed}: {total} made, {harm} did harm")
    return harm


WORKERS = {"spawned workers": ("--dataloader_num_workers", "1")}
"""What a run needs for it to happen."""


def elsewhere(names: Sequence[str], count: int, minutes: float) -> int:
    """Faults that are not in our functions, each in every scenario; returns how many did harm."""
    kept = results()
    until = time.monotonic() + 60 * minutes
    harm = made = 0
    for env in dict.fromkeys(SCENARIOS[name].env for name in names):
        bare, warm = both(env)
        bases = baselines([n for n in names if SCENARIOS[n].env == env], bare, warm)
        for what, name in itertools.product(OTHERS, bases):
            fault = Fault(name, what, "around us", (0, 1))
            scenario = SCENARIOS[name]
            if what in WORKERS and "--seed" not in scenario.words():
                continue  # it has keys of a file, or a loop of the user's
            if fault.key in kept or made >= count or time.monotonic() > until:
                continue
            now = warm.run(scenario, before=what, also=WORKERS.get(what, ()))
            ok, outcome = judged(scenario, *bases[name], now)
            made += 1
            harm += not ok
            keep(_row(fault, now, ok, outcome, reached=True))
            print(f"{'' if ok else 'HARM '}{name}, {what}: {outcome} ({now['seconds']} s)",
                  flush=True)  # fmt: skip
        warm.close()
    print(f"{made} made, {harm} did harm")
    return harm


def tried(warm: Warm, fault: Fault, base: tuple[Answer, Answer]) -> Answer:
    """One fault, as a row of the results."""
    now = warm.run(SCENARIOS[fault.scenario], fault)
    ok, outcome = judged(SCENARIOS[fault.scenario], *base, now)
    if not now["reached"]:
        outcome = f"not reached; {outcome}"
    return _row(fault, now, ok, outcome, reached=bool(now["reached"]))


def closed(row: Answer) -> bool:
    """Whether the function closes over names: its code cannot be replaced, nothing was tried."""
    return "crash: Closed" in row["outcome"]


def _row(fault: Fault, now: Answer, ok: bool, outcome: str, reached: bool) -> Answer:
    return {
        "key": fault.key, "scenario": fault.scenario, "target": fault.target, "kind": fault.kind,
        "ranks": list(fault.ranks), "reached": reached, "ok": ok, "outcome": outcome,
        "said": now["codes"], "seconds": now["seconds"],
        "processor": now["processor"],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--minutes", type=float, default=10**6)
    parser.add_argument("--elsewhere", action="store_true", help="faults around us instead")
    parser.add_argument("names", nargs="*", default=list(SCENARIOS))
    asked = parser.parse_args()
    os.nice(19 - os.nice(0))
    print(f"seed {asked.seed}", flush=True)
    if asked.elsewhere:
        return int(bool(elsewhere(asked.names, asked.count, asked.minutes)))
    return int(bool(campaign(asked.names, asked.seed, asked.count, asked.minutes)))


if __name__ == "__main__":
    sys.exit(main())
