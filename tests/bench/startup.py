"""What a Python pays that never meets a framework, and what a bare import of one pays."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from tests.bench import armed, measure
from tests.kit import envs, runs

PASS = ["-c", "pass"]


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
            beyond = armed.loaded(ours, module, given) - armed.loaded(null, module, given)
            notes.append({"module": module, "more": sorted(beyond),
                          "outside": armed.outside(beyond)})  # fmt: skip
    return {"rows": rows, "notes": notes}


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
    kept["PYTHONPATH"] = str(runs.KIT / "standins")  # for torchvision, on both sides
    return {**kept, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
