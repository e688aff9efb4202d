"""What became of a run of a cell: compared with the oracle, put into one word."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vlmguard.ranks import Call, Result, not_engaged

FAR = 1e-5
"""A tensor that moves less in the oracle has a gradient of rounding errors: compared absolutely."""


def off(ended: Result, reference: Mapping[str, Any], strategy: str) -> dict[str, Any]:
    """{"verdict": right | wrong | hang | crash | unmeasurable, "message", "error", …}."""
    seconds = round(ended.seconds, 1)
    if ended.verdict in ("hang", "mismatch"):
        sites = "; ".join(f"rank {s.rank}: {s.phase}: {s.call or s.site}" for s in ended.sites)
        return {"verdict": "hang", "message": sites[:400], "seconds": seconds}
    if ended.verdict == "crash":
        cause = ended.cause
        text = f"{cause.error}: {cause.message}" if cause else "no word"
        return {"verdict": "crash", "message": _first(text), "seconds": seconds}
    values = [outcome.value for outcome in ended.outcomes]
    told = {"error": worst(values, reference), "seconds": seconds}
    told["digest"] = "-".join(value["digest"] for value in values)
    if why := not_engaged(strategy, _calls(ended), values[0]["trainable"]):
        return {**told, "verdict": "unmeasurable", "message": why}
    faults = differing(values, reference, told["error"])
    return {**told, "verdict": "wrong" if faults else "right", "message": "; ".join(faults)}


def _calls(ended: Result) -> list[list[Call]]:
    """A backward is asked for in accelerate's lines, which else are a trainer's own talk."""
    return [
        [replace(c, site="") if c.phase == "backward" else c for c in log] for log in ended.calls
    ]


def on(
    ended: Result,
    reference: Mapping[str, Any],
    strategy: str,
    before: Mapping[str, Any],
    said: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The same with the guard on, in one of four words: right, stopped, unjudged, broken.

    before: the verdict with the guard off. said: the findings of all ranks.
    """
    told = off(ended, reference, strategy)
    told |= {"ended": told["verdict"], "did": sorted({f"{f['code']} {f['outcome']}" for f in said})}
    if told["ended"] == "unmeasurable":
        return told
    healthy = before["verdict"] == "right"
    if told["ended"] == "right":
        told["bitwise"] = told["digest"] == before.get("digest")
        if healthy and not told["bitwise"]:
            return {**told, "verdict": "broken", "message": "right, but not bitwise as without"}
        if any(f["code"] == "VG902" for f in said):
            return {**told, "verdict": "broken", "message": "a fault of vlmguard's own"}
        return told
    if healthy:
        return {**told, "verdict": "broken", "message": f"healthy without: {_why(told, said)}"}
    stopped = any(f["outcome"] == "stopped" for f in said)
    if stopped and told["ended"] != "wrong":
        return {**told, "verdict": "stopped", "message": _why(told, said)}
    # A note before training said that it may fail, and changed nothing: it was not certain.
    ahead = [f for f in said if f["code"].startswith("VG10") or f["code"] == "VG904"]
    unsure = any(f["level"] == "note" and f["outcome"] not in ("fixed", "set") for f in ahead)
    return {**told, "verdict": "unjudged" if unsure else "broken"}


def _why(told: Mapping[str, Any], said: Sequence[Mapping[str, Any]]) -> str:
    found = next((f for f in said if f["outcome"] == "stopped"), None)
    if found is None:
        return f"{told['ended']}: {told['message']}"
    return f"{found['code']}: {_first(found['why'])}"


def worst(values: Sequence[Mapping[str, Any]], reference: Mapping[str, Any]) -> float:
    """The largest relative error of a tensor's update, over all ranks."""
    found = [
        _error(value["weights"][name], before, reference["after"][name])
        for value in values
        for name, before in reference["before"].items()
        if not name.endswith(tuple(reference["noise"]))
    ]
    return float(f"{max(found):.2e}")


def differing(
    values: Sequence[Mapping[str, Any]], reference: Mapping[str, Any], error: float
) -> list[str]:
    """What is not as in the oracle."""
    if not any((reference["after"][n] != b).any() for n, b in reference["before"].items()):
        return ["nothing moves in the oracle: no comparison"]
    faults = [] if error <= reference["exact"] else [f"updates off by {error:.2g}"]
    for rank, value in enumerate(values):
        given, wanted = value["evaluated"], reference["evaluated"][rank]
        near = [abs(one - two) <= reference["near"] for one, two in zip(given, wanted)]  # noqa: B905
        if len(given) != len(wanted) or not all(near):
            faults.append(f"rank {rank}: evaluation {given}, not {wanted}")
        if value["tokens"] != reference["tokens"][rank]:
            faults.append(f"rank {rank}: other tokens generated")
    return faults


def _error(now: np.ndarray, before: np.ndarray, after: np.ndarray) -> float:
    moved = float(np.linalg.norm(after - before))
    error = float(np.linalg.norm(now - after)) / (moved if moved > FAR else 1.0)
    return error if np.isfinite(error) else float("inf")


def findings(folder: Path) -> list[dict[str, Any]]:
    """What the guard reported, of all ranks."""
    files = sorted(folder.glob("findings*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [line for line in lines if line["kind"] == "finding"]


def _first(text: str) -> str:
    """The first lines, without what differs from run to run."""
    text = re.sub(r"0x[0-9a-f]+|/\S+/|\[[0-9.:]+\]:?\d*", "…", text)
    return " ".join(text.split())[:300]
