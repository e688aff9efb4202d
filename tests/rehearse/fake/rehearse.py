"""A plug-in's ``rehearse`` module without torch: its ranks move a weight as their flags say.

Flags: ``--off KIND`` and ``--on KIND`` are what becomes of a pass; ``--step N`` is when.
``--end KIND`` and ``--end_on KIND`` are what becomes of its ending. ``--plain SCALE`` is what the
reference says of its loss. Rows with "bad" in them are dropped. In an
"unbalanced" pass the ledger warns.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.framework import Commands

NAME = "fake"
DROPS = True
ENDING = True


def load():
    pass


def make(source, out):
    return {"class": "Fake", "weights": 3, "full": 0}


def commands(request, made, rows, single, steps):
    argv = Argv(list(request.argv))
    argv.set("steps", steps)
    argv.set("rows", rows)
    other = argv.copy()
    other.set("off", "right")
    return Commands(tuple(argv.words), tuple(other.words), {}, ("--a: b",))


class Counted(Exception):
    pass


def act(scene):
    argv = Argv(list(scene.argv))
    file = argv.get("rows")
    lines = Path(file).read_text().splitlines() if file else []
    left = sum("bad" not in line for line in lines) if lines else -1
    if scene.counts:
        raise Counted(str(left))
    kind = argv.get("on" if scene.guard else "off") or "right"
    if scene.ends:
        kind = argv.get("end_on" if scene.guard else "end") or "right"
    at, steps = int(argv.get("step") or 1), int(argv.get("steps"))
    for name, value in scene.env.items():
        (Path(scene.place) / name).write_text(value)
    if scene.guard:
        told = {"kind": "finding", "code": "VG106", "outcome": "fixed", "change": "mended"}
        scene.report.with_name("report.rank0.jsonl").write_text(json.dumps(told) + "\n")
    if scene.books and kind != "unread":
        told = {"kind": "finding", "code": "VG640", "why": "halved",
                "level": "warning" if kind == "unbalanced" else "note"}  # fmt: skip
        with scene.report.with_name("report.rank0.jsonl").open("a") as file:
            file.write(json.dumps({"kind": "ledger"}) + "\n" + json.dumps(told) + "\n")
    ran = steps - 1 if kind == "short" else steps
    weights = {"visual.a": np.ones(3), "model.b": np.ones(2)}
    if kind == "other":
        weights["model.b"] = np.zeros(2)
    if kind == "fewer":
        del weights["model.b"]
    if kind.startswith("refuses:"):
        raise ValueError(kind.partition(":")[2])
    _keep(scene, 0, weights)
    for step in range(1, ran + 1):
        scene.begun(0).write_text(str(step))
        bad = step >= at
        if kind == "crash" and bad:
            raise RuntimeError("Expected to mark a variable ready only once")
        if kind == "dies" and bad:
            os._exit(3)
        if kind.startswith("raise:"):
            raise OSError(kind.partition(":")[2])
        if kind.startswith("imports:"):
            raise ImportError(kind.partition(":")[2])
        if kind == "wrong-then-crash" and step > scene.steps[0]:
            raise RuntimeError("later")
        if kind == "sleeps":
            (Path(scene.place) / "asleep").touch()
            time.sleep(600)
        moves = {"dead": 0.0, "nan": float("nan")}.get(kind, 1.0)
        weights = {name: value + moves for name, value in weights.items()}
        if kind.startswith("wrong") and bad:
            weights["visual.a"] = weights["visual.a"] - 0.9
        if kind == "still":
            weights["visual.a"] = np.ones(3)
        if step in scene.steps:
            _keep(scene, step, weights)
        scene.begun(0).write_text(f"{step} over")
    if kind == "evaluates":
        raise KeyError("after the last step")
    towers = {"vision": ["visual.a"], "llm": ["model.b"]}
    return {"steps": ran, "wrapped": "none", "trainable": 5, "towers": towers, "rss": 1,
            "rows": left, "plain": float(argv.get("plain") or 1)}  # fmt: skip


def _keep(scene, step, weights):
    np.savez(scene.weights(step, 0), **weights)
    scene.weights(step, 0).with_suffix(".json").write_text("{}")


def own(request, made, rows, steps):
    """Its own numbers: ``--alone KIND`` is what becomes of one process with them."""
    argv = Argv(list(request.argv))
    kind = argv.get("alone") or "right"
    argv.set("steps", steps)
    argv.set("off", kind)
    argv.set("on", argv.get("alone_on") or kind)
    return Commands(tuple(argv.words), (), {"OWN": "numbers"})
