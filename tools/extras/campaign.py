"""``python -m tools.extras.campaign [EXTRA…]``: `make extras`. One line an extra in the records.

Each extra gets a new environment. torch is installed first, then the wheel in dist/ with the extra,
and pip resolves everything else. A constraint keeps torch as it is. Then vlmguard's commands are
tried there, and the environment is deleted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.extras.cases import ALWAYS, CASES, LOG, TRAIN, Case

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs" / "data" / "extras.jsonl"
STANDINS = ROOT / "tests" / "kit" / "standins"
LIMIT = 1800.0
ARMED = "import {0}; from vlmguard.runtime import seams; print(*seams.armed)"
Record = dict[str, Any]


def load() -> dict[str, Record]:
    """Extra → record."""
    lines = RECORDS.read_text("utf-8").splitlines() if RECORDS.exists() else []
    return {record["extra"]: record for record in map(json.loads, lines)}


def save(records: Mapping[str, Record]) -> None:
    """In the order of the cases."""
    lines = [json.dumps(records[extra], sort_keys=True) for extra in CASES if extra in records]
    RECORDS.write_text("\n".join(lines) + "\n", "utf-8")


class Environment:
    """A new environment in a folder, and what is run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        (folder / "home").mkdir()
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        self.bin = folder / "venv" / "bin"
        self.packages = next(folder.glob("venv/lib/python*/site-packages"))

    def call(self, *words: str | Path, standins: bool = False) -> tuple[int, str, str]:
        """Exit status, what it printed, and what it said on stderr."""
        kept = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("VLMGUARD", "PYTHON", "HF_"))
        }  # fmt: skip
        kept |= {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder / "home"), "COLUMNS": "100",
            "DS_BUILD_OPS": "0", "HF_HUB_OFFLINE": "1",
        }  # fmt: skip
        if standins:
            kept["PYTHONPATH"] = str(STANDINS)
        try:
            done = subprocess.run(
                list(map(str, words)), capture_output=True, text=True, env=kept, cwd=self.work,
                timeout=LIMIT, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return 124, "", f"ended after {LIMIT:.0f} s"
        return done.returncode, done.stdout, done.stderr

    def pip(self, *words: str | Path) -> tuple[int, str, str]:
        quiet = ("-q", "--disable-pip-version-check", "--no-compile")
        return self.call(self.bin / "python", "-m", "pip", "install", *quiet, *words)

    def installed(self) -> dict[str, str]:
        _, printed, _ = self.call(self.bin / "python", "-m", "pip", "list", "--format", "json")
        return {_name(each["name"]): each["version"] for each in json.loads(printed)}


def tried(extra: str, wheel: Path, folder: Path) -> Record:
    """The record of one extra."""
    case, env = CASES[extra], Environment(folder)
    record: Record = {
        "extra": extra, "wheel": wheel.name, "commit": _commit(),
        "python": platform.python_version(), "day": datetime.date.today().isoformat(),
        "pinned": case.torch, "packages": {},
    }  # fmt: skip
    pins = folder / "pins.txt"
    pins.write_text("")
    if case.torch:
        code, _, said = env.pip(f"torch=={case.torch}")
        if code:
            return {**record, "steps": {"install": _step(False, code, _last(said))}}
        pins.write_text(f"torch=={env.installed()['torch']}\n")
    begun = time.monotonic()
    code, _, said = env.pip("-c", pins, f"{wheel}[{extra}]" if extra else wheel)
    record["seconds"] = round(time.monotonic() - begun)
    record["steps"] = {"install": _step(not code, code, "" if not code else _last(said))}
    if code:
        return record
    found = env.installed()
    shown = (*case.distributions, *ALWAYS)
    record["packages"] = {each: found[_name(each)] for each in shown if _name(each) in found}
    record["count"] = len(found.keys() - {"pip", "setuptools", "vlmguard"})
    record["steps"] |= dict(_commands(extra, case, env))
    return record


def _commands(extra: str, case: Case, env: Environment) -> Any:
    """Name → step, of all that is tried."""
    (env.work / "train.sh").write_text(case.command + "\n")
    (env.work / "train.py").write_text(TRAIN.get(extra, ""))
    (env.work / "crash.log").write_text(LOG)
    ours = env.bin / "vlmguard"
    code, printed, _ = env.call(env.bin / "python", "-m", "pip", "check")
    yield "pip check", _step(not code, code, printed)
    yield ".pth", _step((env.packages / "vlmguard.pth").is_file(), 0, "vlmguard.pth")
    code, printed, said = env.call(ours, "--version")
    yield "--version", _step(not code, code, printed or said)
    code, printed, said = env.call(ours, "--help")
    yield "--help", _step(not code and "Usage: vlmguard" in printed, code, printed or said)
    code, printed, said = env.call(ours, "rule", "VG101")
    yield "rule VG101", _step(not code and "reentrant-ddp" in printed, code, printed or said)
    code, printed, said = env.call(ours, "explain", "crash.log")
    yield "explain", _step(code == 1 and printed.startswith("VG501"), code, printed or said)
    code, printed, said = env.call(ours, "rehearse", "nofile.sh")
    yield "rehearse nofile.sh", _step(code == 2 and "No such file" in said, code, said or printed)
    code, printed, said = env.call(ours, "check", "train.sh", standins=True)
    hit = next((line for line in printed.splitlines() if case.told in line), "")
    yield "check", _step(bool(hit), code, hit or _last(printed + said))
    if case.package:
        words = (env.bin / "python", "-c", ARMED.format(case.package))
        code, printed, said = env.call(*words)
        if plain := code == 0:
            note = ""
        else:
            note = f"without the stand-ins: {_last(said)}"
            code, printed, said = env.call(*words, standins=True)
        armed = _last(printed)  # a framework may print lines of its own
        step = _step(not code and case.adapter in armed.split(), code, armed or _last(said))
        yield f"import {case.package}", step | ({} if plain else {"plain": note})
    code, printed, said = env.call(ours, "doctor", standins=True)
    lines = [line for line in printed.splitlines() if re.search(r"armed:|seams|imported", line)]
    well = not code and "armed: yes" in printed
    yield "doctor", _step(well, code, "; ".join(lines) or said)
    if case.selftest:
        code, printed, said = env.call(ours, "selftest", standins=True)
        yield "selftest", _step(not code, code, _last(printed + said))


def _step(good: bool, code: int, said: str) -> Record:
    first = said.strip().splitlines()[0].strip() if said.strip() else ""
    told = re.sub(r"/\S*/site-packages/", "", first)
    return {"good": good, "exit": code, "said": told[:600]}


def _last(said: str) -> str:
    """The last line that is no warning."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("WARNING")]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [""])[-1]


def _name(word: str) -> str:
    return word.lower().replace("_", "-")


def _commit() -> str:
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=9", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.extras.campaign", description=__doc__)
    parser.add_argument("extra", nargs="*", help="only these; 'none' is vlmguard alone")
    given = parser.parse_args()
    (wheel,) = (ROOT / "dist").glob("*.whl")
    wanted = ["" if each == "none" else each for each in given.extra] or list(CASES)
    bad = []
    for extra in wanted:
        with tempfile.TemporaryDirectory(prefix="vlmguard-extra-") as folder:
            record = tried(extra, wheel, Path(folder))
        save({**load(), extra: record})
        failed = [name for name, step in record["steps"].items() if not step["good"]]
        bad += failed
        print(f"{extra or 'none'}: {record['packages']}, failed: {failed or 'nothing'}", flush=True)
        for name in failed:
            print(f"  {name}: {record['steps'][name]}", flush=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
