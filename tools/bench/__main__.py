"""``python -m tools.bench [--quick] [--only PART…]``: measure, and write docs/data/benchmarks.json.

Each part replaces its own section, so that they can be run one by one. ``--quick`` measures a few
pairs, checks the machinery and writes nothing; ``tools/pages/`` makes the page from the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kit import envs, runs

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "data" / "benchmarks.json"
BESIDE = "trl"
"""The environment whose transformers trains."""


def _here(module: str, name: str) -> Callable[[bool], dict[str, Any]]:
    def run(quick: bool) -> dict[str, Any]:
        import importlib

        return getattr(importlib.import_module(f"tools.bench.{module}"), name)(quick)  # type: ignore[no-any-return]

    return run


def _there(name: str) -> Callable[[bool], dict[str, Any]]:
    """In an environment that has transformers."""

    def run(quick: bool) -> dict[str, Any]:
        words = [envs.program(BESIDE), "-m", "tools.bench.steps", name]
        # stand-ins, because its torchvision was built for another torch
        path = os.pathsep.join(map(str, (runs.KIT / "standins", ROOT, ROOT / "plugins")))
        given = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1",
                 "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}  # fmt: skip
        done = subprocess.run(
            [*words, *(["--quick"] if quick else [])],
            cwd=ROOT, env=given, capture_output=True, text=True, check=False,
        )  # fmt: skip
        line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT ")), None)
        if line is None:
            raise RuntimeError(f"{name} gave no result:\n{done.stderr[-3000:]}")
        return json.loads(line.removeprefix("RESULT "))  # type: ignore[no-any-return]

    return run


PARTS: dict[str, tuple[str, Callable[[bool], dict[str, Any]]]] = {
    "start": ("1 minute", _here("startup", "start")),
    "pre_step": ("10 seconds", _here("batch", "pre_step")),
    "watch": ("1 minute", _here("gradients", "watch")),
    "agreement": ("2 minutes", _here("agreement", "agreement")),
    "step": ("4 minutes", _there("step")),
    "mends": ("4 minutes", _there("mends")),
    "ledger": ("8 minutes", _there("ledger")),
    "explain": ("5 minutes", _here("logs", "explain")),
    "transformers": ("10 minutes", _here("startup", "transformers")),
    "swift": ("10 minutes", _here("startup", "swift")),
}
"""Name → how long it takes on two idle cores, and what measures it; the short ones first."""


def machine() -> dict[str, str]:
    """In words; the load is that of the minute before."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def run(name: str, quick: bool) -> dict[str, Any]:
    """One part, with the machine and the day."""
    before = machine()
    started = time.monotonic()
    found = PARTS[name][1](quick)
    taken = {"seconds": round(time.monotonic() - started), "taken": time.strftime("%Y-%m-%d")}
    return {**found, "machine": {**before, **found.get("machine", {})}, **taken}


def keep(name: str, found: dict[str, Any]) -> None:
    """Put a part's section into the file."""
    kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    kept[name] = found
    ordered = {each: kept[each] for each in PARTS if each in kept}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--pairs", help="at most so many pairs; the page says how many")
    given = parser.parse_args()
    if given.pairs:
        os.environ["BENCH_PAIRS"] = given.pairs
    missed = []
    for name in given.only:
        print(f"[bench] {name}, about {PARTS[name][0]} …", flush=True)
        found = run(name, given.quick)
        for row in found["rows"]:
            value, bar = row["cpu"], row["bar"]
            met = {True: "met", False: "MISSED", None: "lost in the noise"}[row["met"]]
            told = "" if bar is None else f"; bar {bar:g}, {met}"
            print(f"  {row['what']}: {value['median']:.3g} {row['unit']} "
                  f"({value['low']:.3g} to {value['high']:.3g}{told})", flush=True)  # fmt: skip
            missed += [row["what"]] if row["met"] is False else []
        if not given.quick:
            keep(name, found)
    return int(bool(missed) and not given.quick)


if __name__ == "__main__":
    sys.exit(main())
