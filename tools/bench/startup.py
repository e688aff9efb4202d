"""What a Python pays that never meets a framework, and what a bare import of one pays."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.kit import envs, runs
from tools.bench import armed, measure

PASS = ["-c", "pass"]

TIMED = """
import sys, time
kind = next(type(f) for f in sys.meta_path if type(f).__module__ == "vlmguard._bootstrap")
find, spent = kind.find_spec, []
def timed(*given):
    start = time.perf_counter()
    try:
        return find(*given)
    finally:
        spent.append(time.perf_counter() - start)
kind.find_spec = timed
import {module}
print("spent", sum(spent))
"""
"""With what it arms and asks the other finders for, which an import without us does too."""


def start(quick: bool) -> dict[str, Any]:
    """``python -c pass`` beside the null control."""
    with tempfile.TemporaryDirectory() as folder:
        ours, null = armed.two(Path(folder))
        row = _row("`python -c pass`", ours, null, PASS, measure.number(quick, 3, 300), 1.5)
    return {"rows": [row.data()]}


def transformers(quick: bool) -> dict[str, Any]:
    """``import transformers``, and the module of it that training needs."""
    return _imports(quick, {"transformers": 5.0, "transformers.trainer": None})


def swift(quick: bool) -> dict[str, Any]:
    """``import swift``, which imports nothing of torch until it is asked."""
    return _imports(quick, {"swift": 5.0})


def _imports(quick: bool, modules: dict[str, float | None]) -> dict[str, Any]:
    packages = armed.packages_of(envs.program("swift"))
    rows, notes = [], []
    with tempfile.TemporaryDirectory() as folder:
        ours, null = armed.two(Path(folder), packages)
        for module, bar in modules.items():
            number = measure.number(quick, 2, 200 if bar else 20)
            code = ["-c", f"import {module}"]
            rows.append(_row(f"`import {module}`", ours, null, code, number, bar).data())
            given = variables()
            spent = inside(ours, module, given, measure.number(quick, 2, 20))
            rows.append(measure.Row("the same, in our import hook alone, wall", "ms", spent,
                                    measure.number(quick, 2, 20)).data())  # fmt: skip
            beyond = armed.loaded(ours, module, given) - armed.loaded(null, module, given)
            notes.append({"module": module, "more": sorted(beyond),
                          "outside": armed.outside(beyond)})  # fmt: skip
    return {"rows": rows, "notes": notes}


def inside(
    python: str, module: str, variables: dict[str, str], number: int
) -> measure.Median:
    """Milliseconds of one import in our finder, which is all of us that it meets."""
    return measure.median([_inside(python, module, variables) for _ in range(number)])


def _inside(python: str, module: str, variables: dict[str, str]) -> float:
    code = TIMED.replace("{module}", module)
    done = subprocess.run(
        [python, "-c", code], env=variables, stdin=subprocess.DEVNULL, capture_output=True,
        text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr[-500:]}")
    return float(done.stdout.rpartition("spent")[2]) * 1e3


def _row(
    what: str, ours: str, null: str, words: list[str], number: int, bar: float | None
) -> measure.Row:
    given = variables()
    if words is PASS:
        del given["PYTHONPATH"]
    found = measure.pairs(
        lambda: measure.command([ours, *words], given),
        lambda: measure.command([null, *words], given),
        number,
    )
    return measure.more(f"{what}, more than with a null control", found, "ms", bar)


def variables() -> dict[str, str]:
    """Nothing of the caller's but the search path and the home of caches."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    kept["PYTHONPATH"] = str(runs.KIT / "standins")  # for torchvision, guard off and on
    return {**kept, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
