"""Reports made by hand: what each station of a run wrote."""

from __future__ import annotations

import json

STATIONS = ("rows", "targets", "reach", "reduce", "update", "ranks")
PIECES = [
    ["<|im_start|>user\n", None], *[["<image>", None]] * 6, ["<b>a & b</b>", None],
    ["A", 1.0], [" cup", 1.0], ["\x1b[31m!", 0.5], ["no", -0.25], ["?", True],
]  # fmt: skip
SHOWN = {
    "rows": {"targets": 1604, "rows": [{"rank": 1, "row": 3, "kind": "image", "pieces": PIECES}]},
    "targets": {"tokens": 1600, "sum": 1.0, "weights": [0.98, 1.0], "residual": {"next": 1e-6}},
    "reach": {"trained": {"vision": 57}, "missed": {}},
    "reduce": {"norms": {"vision": 0.021}, "factor": 0.31, "clipped": True},
    "update": {"groups": [{"lr": 2e-6}], "towers": {"vision": {"moved": 57, "update": 1.1e-5}}},
}
VISION = {"tensors": 60, "parameters": 671_000_000, "trainable": 57, "trained": 668_000_000}
ENTRY = {
    "code": "VG640", "level": "warning", "why": "another gradient", "size": 1.0, "since": 2,
    "what": "31 of 57 vision tensors", "advice": "the other checkpointing variant",
}  # fmt: skip


def station(name, state="balances", **more):
    return {"state": state, "reason": "", "shown": SHOWN.get(name, {}), "entries": [], **more}


def record(step, **stations):
    return {
        "kind": "ledger", "run": 1, "rank": 0, "window": step - 1, "step": step, "ranks": 2,
        "heard": 2, "strategy": "zero3", "kinds": ["image"],
        "towers": {"vision": {**VISION, "groups": [0]}},
        "stations": {name: station(name) for name in STATIONS} | stations,
    }  # fmt: skip


BAD = station("reduce", "differs", entries=[ENTRY])
FUSED = station("targets", "cannot tell", reason="the head is fused away", shown={})
RUN = [record(1, targets=FUSED), record(2, reduce=BAD), record(1000, reduce=BAD)]


def write(path, records=RUN):
    lines = [{"kind": "header", "run": 1}, *records, {"kind": "finding", "code": "VG640"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path
