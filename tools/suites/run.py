"""The frameworks' own tests with the guard off and on: `make suites TRANSFORMERS=… TRL=… …`.

    python -m tools.suites.run trl=CHECKOUT accelerate=CHECKOUT … [--only FILES] [--tests K]

Each test file runs in a process that is forked from a warm one, once with ``VLMGUARD=off`` and once
with the guard armed. A test whose outcomes differ runs again, up to three times on each side. What
was done lies in ``.suites/`` and is not done again; delete a file there to repeat it. A checkout of
TRL also makes ``.suites/hub`` (`hub.py`), which answers hub ids of every suite.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit import envs
from tools.suites import compare, suites
from tools.suites.suites import SUITES, Suite

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WORK = ROOT / ".suites"
LIMIT = 90
"""Seconds that a test may take."""
SIDES = ("off", "on")
AGAIN = 3


class Side:
    """The warm process of one suite with the guard off or on; started at the first request."""

    def __init__(self, suite: Suite, checkout: Path, side: str, hub: str) -> None:
        self.suite, self.checkout, self.side, self.hub = suite, checkout, side, hub
        self.process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any]) -> int:
        """pytest's exit status; -9 where it was ended."""
        if self.process is None:
            self._start()
        assert self.process
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return int(self._answer()["code"])

    def close(self) -> None:
        """End the process."""
        if self.process is not None and self.process.stdin:
            self.process.stdin.close()
            self.process.wait(60)
            self.process = None

    def _answer(self) -> dict[str, Any]:
        assert self.process
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.side} side ended: {WORK / 'worker.log'}")
        return dict(json.loads(line))

    def _start(self) -> None:
        WORK.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [envs.program(self.suite.env), str(HERE / "worker.py"), *self.suite.imports],
            cwd=self.checkout, env=self.environment(), text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=(WORK / "worker.log").open("a"),
        )  # fmt: skip
        self._answer()

    def environment(self) -> dict[str, str]:
        """What the warm process and the tests see."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("VLMGUARD")}
        sources = [str((self.checkout / each).resolve()) for each in self.suite.sources]
        parts = ("tools/suites/plugin", "tests/kit/standins", "", "plugins", ".suites/site")
        ours = [str(ROOT / part) for part in parts]
        around = {
            **inherited,
            "PYTHONPATH": os.pathsep.join([*sources, *ours]),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "DS_ACCELERATOR": "cpu",
            "GLOO_SOCKET_IFNAME": "lo",
            "TOKENIZERS_PARALLELISM": "false",
            "SUITES_LIMIT": str(LIMIT),
            "PYTHONHASHSEED": "0",
        }
        if self.hub:
            around |= {"HF_HOME": self.hub, "SUITES_HUB": self.hub}
        return {**around, "VLMGUARD": "off"} if self.side == "off" else around


def run_file(sides: dict[str, Side], name: str, file: str, tests: str = "") -> None:
    """One file on both sides, then what differs again. ``tests`` is pytest's -k: some first."""
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    stem = file.replace("/", "__")
    outs = {side: folder / f"{stem}.{side}.jsonl" for side in SIDES}
    for side in SIDES:
        _whole(sides[side], file, outs[side], folder / f"{stem}.{side}.log", tests)
    again = folder / f"{stem}.again.jsonl"
    tried = {line["test"] for line in compare.lines(again)}
    left = [test for test in compare.differing(*(outs[s] for s in SIDES)) if test not in tried]
    for test in left:
        first = compare.outcome(compare.ends(outs["off"])[test])
        other = compare.outcome(compare.ends(outs["on"])[test])
        off = _repeated(sides["off"], test, folder)
        seen: dict[str, list[str]] = {"off": [next(off)], "on": []}
        if compare.plain(first) != compare.plain(other) or seen["off"] == [first]:
            seen = {"off": [*seen["off"], *off], "on": [*_repeated(sides["on"], test, folder)]}
        with again.open("a", encoding="utf-8") as target:
            target.write(json.dumps({"test": test, **seen}) + "\n")
    print(f"{name} {file}: {compare.in_short(*(outs[s] for s in SIDES))}", flush=True)


def _whole(side: Side, file: str, out: Path, log: Path, tests: str) -> None:
    """Until every test has an outcome: one that ends the process, or hangs, is told and passed."""
    while not (ended := out.with_suffix(".end")).exists():
        done = [line["test"] for line in compare.lines(out) if "test" in line]
        code = side.ask(_request([file, *(["-k", tests] if tests else [])], out, log, done))
        open_ = compare.unfinished(out)
        if open_ is None:
            if not tests:
                ended.write_text(str(code))
            return
        _tell(out, {"test": open_, "outcome": "hung" if code == -9 else "died", "why": f"{code}"})


def _repeated(side: Side, test: str, folder: Path) -> Iterator[str]:
    for _ in range(AGAIN):
        out = folder / "once.jsonl"
        out.unlink(missing_ok=True)
        code = side.ask(_request([test], out, folder / "once.log", []))
        ends = [line for line in compare.lines(out) if "test" in line]
        yield compare.outcome(ends[-1]) if ends else f"died {code}"


def _request(tests: list[str], out: Path, log: Path, done: list[str]) -> dict[str, Any]:
    plain = ["-q", "--tb=short", "-p", "vlmguard_suites", "-p", "no:cacheprovider", "-rN"]
    args = [*plain, "-o", "addopts=", "--disable-warnings", *tests]
    return {"args": args, "out": str(out), "log": str(log), "done": done, "quiet": 2 * LIMIT + 30}


def _tell(out: Path, line: dict[str, Any]) -> None:
    with out.open("a", encoding="utf-8") as target:
        target.write(json.dumps(line) + "\n")


def site() -> None:
    """pytest and what suites import beside their framework, for no environment of ours."""
    there = WORK / "site"
    if not there.exists():
        wanted = (
            "pytest iniconfig pluggy packaging pygments parameterized num2words docopt "
            "optuna colorlog sqlalchemy alembic mako markupsafe greenlet requests urllib3 idna "
            "certifi charset-normalizer aiohttp aiosignal attrs frozenlist multidict yarl "
            "propcache aiohappyeyeballs"
        ).split()
        install = [envs.program("dev"), "-m", "pip", "install", "-q", "--no-deps", "--target"]
        subprocess.run([*install, str(there), *wanted], check=True)


def hub(checkouts: dict[str, Path]) -> str:
    """The folder that answers hub ids, made by a checkout of TRL once; "" where there is none."""
    there = WORK / "hub"
    if not there.exists() and "trl" in checkouts:
        trl = checkouts["trl"]
        around = Side(SUITES["trl"], trl, "off", "").environment()
        command = [envs.program("trl"), str(HERE / "hub.py"), str(there), str(trl)]
        subprocess.run(command, env=around, cwd=trl, check=True)
    return str(there) if there.exists() else ""


def source(checkout: Path) -> str:
    """The commit of a checkout, or the name of an unpacked release."""
    asked = ["git", "-C", str(checkout), "rev-parse", "--show-toplevel", "--short=12", "HEAD"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return told[1] if told and Path(told[0]) == checkout else checkout.name


def main() -> int:
    """Run, compare, and write docs/data/suites.jsonl."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("suites", nargs="+", metavar="NAME=CHECKOUT")
    parser.add_argument("--only", default="", help="test files whose name has this part")
    parser.add_argument("--tests", default="", help="pytest's -k: do these first")
    told = parser.parse_args()
    site()
    pairs = (each.partition("=")[::2] for each in told.suites)
    checkouts = {name: Path(at).resolve() for name, at in pairs}
    answers = hub(checkouts)
    for name, at in checkouts.items():
        sides = {side: Side(SUITES[name], at, side, answers) for side in SIDES}
        for file in suites.files(SUITES[name], at):
            if told.only in file:
                run_file(sides, name, file, told.tests)
        for side in sides.values():
            side.close()
        head = {"source": source(at), "env": SUITES[name].env, "vlmguard": source(ROOT),
                "recorded": datetime.date.today().isoformat()}  # fmt: skip
        compare.write(WORK, name, head)
    return int(bool(compare.differences()))


if __name__ == "__main__":
    sys.exit(main())
