"""Whether a healthy run was stopped, changed, spoken to untruly, or left with something behind."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.ordinary import truth
from tools.ordinary.draws import Draw

CHANGED = ("weights", "optimizer", "log", "more", "random", "keys")
LEFT = ("hooks", "optimizer hooks", "attributes", "classes", "alive", "open", "threads",
        "environment")  # fmt: skip
_GUARD = "vlmguard: "
Told = Mapping[str, Any]


def unhealthy(off: Told) -> str:
    """Why the run is not an ordinary one: it fails without the guard. "" if it does not."""
    if off["verdict"] != "ok":
        errors = [rank["error"] for rank in off["ranks"] if rank["error"]]
        return f"{off['verdict']}: {(errors or [''])[0][:200]}"
    for rank in off["ranks"]:
        odd = [name for name, digest in rank["account"]["weights"].items() if "not" in digest]
        if odd:
            return f"not finite: {odd[0]}"
    return ""


def harm(draw: Draw, off: Told, on: Told, folder: Path) -> list[str]:
    """What was done to it, a line each: "stopped: …", "changed: …", "spoken: …", "left: …"."""
    said = findings(folder)
    found = [f"spoken: {line}" for line in truth.untrue(draw, said)]
    found += [f"spoken: {line}" for line in printed(draw, off, on)]
    if on["verdict"] != "ok":
        return [_ended(on), *found]
    for number, (before, after) in enumerate(zip(off["ranks"], on["ranks"], strict=True)):
        for word, names in (("changed", CHANGED), ("left", LEFT)):
            for name in names:
                other = differs(before["account"].get(name), after["account"].get(name))
                if name == "environment" and before["account"].get("alive"):
                    continue  # the framework keeps the model, so the run is still open
                if other:
                    found.append(f"{word}: {name}, rank {number}: {other}")
    return found


def _ended(on: Told) -> str:
    if on["verdict"] in ("hang", "mismatch"):
        return f"hang: {on['verdict']}"
    errors = [rank["error"] for rank in on["ranks"] if rank["error"]]
    return f"stopped: {(errors or [on['verdict']])[0][:300]}"


def differs(before: Any, after: Any) -> str:
    """"" where they are equal; else what of them is not, in short."""
    if before == after:
        return ""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        some = "; ".join(f"{k}: {_short(before.get(k))} → {_short(after.get(k))}" for k in keys[:2])
        return f"{len(keys)} of {len(before)} differ: {some}"
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        at = next(n for n, (one, two) in enumerate(zip(before, after, strict=True)) if one != two)
        return f"entry {at}: {differs(before[at], after[at])}"
    return f"{_short(before)} → {_short(after)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 90 else f"{text[:87]}…"


def findings(folder: Path) -> list[dict[str, Any]]:
    """All that the guard reported, of all processes, in the order of time."""
    lines = [json.loads(line) for file in folder.glob("findings*.jsonl")
             for line in file.read_text().splitlines()]  # fmt: skip
    return sorted((line for line in lines if line["kind"] == "finding"), key=lambda e: e["time"])


def printed(draw: Draw, off: Told, on: Told) -> list[str]:
    """Lines that came with the guard alone, but for those that are true."""
    before = {_steady(line) for rank in off["ranks"] for line in rank["output"].splitlines()}
    found = {}
    for rank in on["ranks"]:
        for line in rank["output"].splitlines():
            steady = _steady(line)
            if steady and steady not in before and not truth.may_be_said(draw, line):
                found.setdefault(steady, line[:300])
    # A stopped run may print what belongs to the stop.
    return list(found.values()) if on["verdict"] == "ok" else []


def _steady(line: str) -> str:
    """Without numbers, which clocks and processes change, the room that they take, and the minutes
    of a slower run ("1m 0s" beside "59s")."""
    numbers = re.sub(r"0x[0-9a-f]+|[0-9.:]+", "0", line)
    return re.sub(r"\s+", " ", re.sub(r"\b(0[dhm] )+0s", "0s", numbers)).strip()
