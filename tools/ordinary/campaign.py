"""Draws ordinary runs and runs each with the guard off and on: `make ordinary`.

    python -m tools.ordinary.campaign --world 1 --count 250 [--seed N] [--until 20:45]

Resumable: a record a run in docs/data/ordinary.jsonl; one of other sources of the guard is made
again.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import math
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kit import envs, runs
from tools.ordinary import draws, judge, turns, words
from tools.ordinary.draws import Draw

ROOT = Path(__file__).resolve().parents[2]
RECORDS = Path(os.environ.get("ORDINARY_RECORDS", ROOT / "docs" / "data" / "ordinary.jsonl"))
SEED = 24
WANTED = {1: 250, 2: 110, 3: 25, 4: 15}
"""Healthy runs of each number of ranks."""
LONG_WANTED, PAIRS = 20, 3
"""Long runs, and how often each is made: two processes that do the same differ by up to 2 % all
along, by where their memory lies."""
LIMIT = {1: 60.0, 2: 120.0, 3: 180.0, 4: 180.0}
LONG = 900.0
"""Seconds that a run may take; 200 steps by turns."""
START = 300.0
TOO_MANY = 12
ENVS = ("trl", "swift", "llamafactory", "flagembedding", "colossalai")
"""Environments that have a worker's modules."""
_ASIDE = ("vlmguard_explain", "check", "rehearse", "lab", "cli", "selftest")
"""Parts of the package that no training runs."""


NOT_JUDGED = ("not healthy", "undecided")
"""Verdicts on runs that fail without the guard, or whose time was over with the guard alone."""


class SlowError(Exception):
    """A run whose time was over while it moved: nothing is known of it."""


class SlowGuardedError(SlowError):
    """So it was with the guard, and without it the same run ended in time."""


class Worker:
    """A warm process of an environment.

    Args:
        words: what its Python is to run.
        log: gets its standard error.

    Attributes:
        ready: what it told first.
    """

    def __init__(self, env: str, words: Sequence[str], around: dict[str, str], log: Path) -> None:
        self.errors = log.open("w")
        self.process = subprocess.Popen(
            [envs.program(env), *words], env=around, cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True,
        )  # fmt: skip
        self.buffer = b""
        self.ready = self.answer(START)

    def ask(self, job: Mapping[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, limit: float) -> dict[str, Any]:
        """The next line. Raises RuntimeError for a worker that is gone or too slow."""
        assert self.process.stdout
        until = time.monotonic() + limit
        while b"\n" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise RuntimeError(f"no answer: {self.errors.name}")
            found = os.read(self.process.stdout.fileno(), 1 << 20)
            if not found:
                last = Path(self.errors.name).read_text("utf-8", "replace")[-2000:]
                raise RuntimeError(f"the worker is gone: {self.errors.name}: {last}")
            self.buffer += found
        line, _, self.buffer = self.buffer.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Workers:
    """Both of each environment, started when they are first asked.

    listen: whether a rule of a third party counts the batches that it gets.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, dict[tuple[str, str], Worker]()
        self.listen = False

    def run(self, draw: Draw, guard: str) -> tuple[dict[str, Any], Path]:
        """How the run ended, and the folder with its findings."""
        folder = self.begin(draw, guard)
        return self.get(guard, draw.env).answer(LIMIT[draw.world] + 60), folder

    def both(self, draw: Draw) -> tuple[dict[str, Any], dict[str, Any], Path]:
        """The run without and with the guard, by turns; the folder with its findings."""
        place = Path(tempfile.mkdtemp(prefix="turns-", dir=self.folder)) / "turns"
        turns.made(place)
        self.begin(draw, "off", f"{place}:off")
        folder = self.begin(draw, "on", f"{place}:on")
        off, on = (self.get(guard, draw.env).answer(LONG + 60) for guard in ("off", "on"))
        return off, on, folder

    def begin(self, draw: Draw, guard: str, order: str = "") -> Path:
        """Hand the run to its worker. Returns the run's folder."""
        folder = Path(tempfile.mkdtemp(prefix=f"run-{guard}-", dir=self.folder))
        told = {"draw": draw.data(), "folder": str(folder), "turns": order,
                "limit": LONG if order else LIMIT[draw.world], "listen": self.listen,
                "command": words.job(draw) if draw.program in draws.COMMANDS else None}  # fmt: skip
        self.get(guard, draw.env).ask(told)
        return folder

    def get(self, guard: str, env: str) -> Worker:
        found = self.kept.get((guard, env))
        if found is None or found.process.poll() is not None:
            around, log = variables(env, guard, self.folder), self.folder / f"{env}-{guard}.log"
            command = ("-m", "tools.ordinary.worker", guard, env)
            found = self.kept[guard, env] = Worker(env, command, around, log)
        return found

    def sweep(self) -> None:
        """What runs have left in their folders."""
        for pattern in ("run-*", "turns-*", "vlmguard-ranks-*"):
            for folder in self.folder.glob(pattern):
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        for worker in self.kept.values():
            worker.close()


@contextlib.contextmanager
def working() -> Iterator[Workers]:
    """Workers, and a folder of theirs that goes with them."""
    folder = Path(tempfile.mkdtemp(prefix="ordinary-"))
    workers = Workers(folder)
    try:
        yield workers
    finally:
        workers.close()
        shutil.rmtree(folder, ignore_errors=True)


def measure(workers: Workers, draw: Draw) -> dict[str, Any]:
    """The record of a drawn run."""
    begun = time.monotonic()
    on: dict[str, Any] | None = None
    costs: list[dict[str, Any]] = []
    if draw.number >= draws.LONG:
        for _ in range(PAIRS):
            off, on, folder = workers.both(draw)
            costs.append(_cost(off, on))
    else:
        off, _ = workers.run(draw, "off")
    if off["late"]:
        raise SlowError("its time was over, and it moved: too slow a machine")
    told: dict[str, Any] = {"name": draw.name, "draw": draw.data(), "sources": sources()}
    why = judge.unhealthy(off)
    if why:
        return told | {"verdict": "not healthy", "why": why, "frames": _frames(off)}
    if on is None:
        on, folder = workers.run(draw, "on")
    else:
        told |= _middle(costs)
    if on["late"]:
        raise SlowGuardedError("with the guard its time was over, and it moved")
    harm = judge.harm(draw, off, on, folder)
    said = {f"{one['code']} {one['outcome'] or one['level']}" for one in judge.findings(folder)}
    workers.sweep()
    verdict = harm[0].partition(":")[0] if harm else "as without"
    return told | {"verdict": verdict, "harm": harm, "said": sorted(said),
                   "seconds": round(time.monotonic() - begun, 1)}  # fmt: skip


def _cost(off: Mapping[str, Any], on: Mapping[str, Any]) -> dict[str, Any]:
    if on["verdict"] != "ok":
        return {}
    before, after = (each["ranks"][0]["account"] for each in (off, on))
    cost, wall = (turns.ratio(before[by], after[by]) for by in ("processor", "seconds"))
    step = round(statistics.median(before["processor"]), 4)
    return {"cost": cost, "wall": wall, "step": step, "load": round(os.getloadavg()[0], 1)}


def _middle(costs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of each number the median; with them each pair's cost."""
    if not all(costs):
        return {}
    middle = {name: round(statistics.median(e[name] for e in costs), 4) for name in costs[0]}
    return {**middle, "pairs": [each["cost"] for each in costs]}


def _frames(ended: Mapping[str, Any]) -> list[str]:
    failed = [rank["frames"] for rank in ended["ranks"] if rank["error"]]
    return failed[0] if failed else []


def records() -> dict[str, dict[str, Any]]:
    """Those that are kept, by name."""
    lines = RECORDS.read_text("utf-8").splitlines() if RECORDS.exists() else []
    return {told["name"]: told for told in map(json.loads, lines)}


def keep(told: Mapping[str, Any]) -> None:
    """Write one; an older one of the same run goes."""
    with runs.locked(RECORDS.with_suffix(".lock")):
        found = {**records(), told["name"]: told}
        ordered = sorted(found.values(), key=lambda e: tuple(map(int, e["name"].split("/"))))
        half = RECORDS.with_suffix(".half")
        half.write_text("".join(json.dumps(each) + "\n" for each in ordered), "utf-8")
        half.replace(RECORDS)


@functools.cache
def sources() -> str:
    """Changes with every edit of what a training runs of the guard."""
    files = [*(ROOT / "vlmguard").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
    digest = hashlib.sha256()
    for file in sorted(files):
        if file.relative_to(ROOT).parts[1] not in _ASIDE:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:10]


def variables(env: str, guard: str, folder: Path) -> dict[str, str]:
    kit = ROOT / "tests" / "kit"
    path = [kit / "standins", kit / "programs", ROOT, ROOT / "plugins"]
    path += [kit / "stubs"] if env == "llamafactory" else []
    found = {
        "PATH": f"{envs.path(env) / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "LANG": "C.UTF-8", "HOME": str(folder), "TMPDIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "CI": "1",
        "TRL_EXPERIMENTAL_SILENCE": "1", "VLMGUARD_ENVS": str(envs.HOME),
    }  # fmt: skip
    return {**found, "VLMGUARD": "off"} if guard == "off" else found


def main() -> int:
    options = _options()
    made = healthy = row = 0
    end = until(options.until)
    with working() as workers:
        for number in range(options.first, 10**9):
            if healthy >= options.count or time.time() >= end:
                break
            draw = draws.draw(options.seed, options.world, number)
            if draw.env not in ENVS or not _chosen(draw, options):
                continue
            kept = records().get(draw.name)
            known = kept and kept["sources"] == sources() and draws.read(kept["draw"]) == draw
            if kept and known and not options.again and kept["verdict"] != "undecided":
                healthy += kept["verdict"] not in NOT_JUDGED
                continue
            try:
                told = measure(workers, draw)
            except SlowGuardedError as error:
                told = {"name": draw.name, "draw": draw.data(), "sources": sources(),
                        "verdict": "undecided", "why": str(error)}  # fmt: skip
            except SlowError as error:
                print(f"{draw.name}: no verdict: {error}", flush=True)
                continue
            except RuntimeError as error:
                print(f"{draw.name}: no verdict: {error}", flush=True)
                workers.close()
                workers.kept.clear()
                continue
            keep({**told, "made": time.strftime("%Y-%m-%d %H:%M", time.gmtime())})
            made, healthy = made + 1, healthy + (told["verdict"] not in NOT_JUDGED)
            row = 0 if told["verdict"] != "not healthy" else row + 1
            if row == TOO_MANY:
                sys.exit(f"{row} runs in a row fail without the guard: the harness is at fault")
            _say(draw, told)
    print(f"{made} made, {healthy} healthy of {options.count}")
    return 0


def _chosen(draw: Draw, options: argparse.Namespace) -> bool:
    fits = options.env in ("", draw.env) and options.program in draw.program
    return fits and (not options.feature or draw.has(options.feature))


def sentence(draw: Draw) -> str:
    """A draw on one line."""
    what = f"{draw.program}, {draw.model}, {draw.strategy}, {draw.rows}, x{draw.batch} "
    return what + f"acc {draw.accumulation}, {draw.tuning}, {' + '.join(draw.features)}"


def _say(draw: Draw, told: Mapping[str, Any]) -> None:
    what = sentence(draw)
    if "cost" in told:
        what += f" cost {told['cost']} (wall {told['wall']}) of {told['step']} s"
    print(f"{draw.name}: {told['verdict']} ({told.get('seconds', 0)} s): {what}", flush=True)
    for line in [*told.get("harm", ()), *([told["why"]] if "why" in told else [])]:
        print(f"    {line}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--count", type=int, default=0, help="healthy runs (default: as wanted)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--first", type=int, default=0, help="the first number that is drawn")
    parser.add_argument("--until", default="", help="stop at this time of the clock, HH:MM")
    parser.add_argument("--env", default="", help="only programs of this environment")
    parser.add_argument("--program", default="", help="only programs with this in their name")
    parser.add_argument("--feature", default="", help="only runs with this feature")
    parser.add_argument("--long", action="store_true", help="runs of 200 steps, judged for cost")
    parser.add_argument("--again", action="store_true", help="make records again")
    options = parser.parse_args()
    options.count = options.count or (LONG_WANTED if options.long else WANTED[options.world])
    options.first += draws.LONG * options.long
    return options


def until(clock: str) -> float:
    """The next time that the clock shows it, in seconds of `time.time`; without one, never."""
    if not clock:
        return math.inf
    now = time.localtime()
    hour, minute = map(int, clock.split(":"))
    ahead = (hour - now.tm_hour) * 60 + minute - now.tm_min
    return time.time() + ahead % (24 * 60) * 60


if __name__ == "__main__":
    sys.exit(main())
