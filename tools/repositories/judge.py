"""What became of a cell's three runs, in a record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.kit import oracle
from tests.kit.runs import Outcome

BROKEN = ("wrong", "crash", "hang")


def ran(reference: Outcome) -> None:
    """
    Raises:
        Vacuous: the reference did not train.
    """
    if not reference.ranks:
        raise oracle.Vacuous(_last(reference))


WRAPPED = {"ddp": "DistributedDataParallel", "zero": "DeepSpeedEngine/"}


def record(
    ended: Mapping[str, Outcome], strategy: str, skip: tuple[str, ...] = ()
) -> dict[str, Any]:
    """{"reference", "off", "on", "verdict"}.

    Raises:
        Vacuous: the ranks did not work together as ``strategy`` says.
    """
    reference = ended["reference"]
    for rank in (*ended["off"].ranks, *ended["on"].ranks):
        kind = WRAPPED[strategy.rstrip("0123")] + ("" if strategy == "ddp" else strategy)
        if rank.wrapped != kind:
            raise oracle.Vacuous(f"the model was wrapped as {rank.wrapped}, not {kind}")
    off, on = (_side(ended[side], reference, skip) for side in ("off", "on"))
    on["said"] = sorted({f"{f['code']} {f['outcome']}" for f in ended["on"].findings})
    told = {"off": off, "on": on, "reference": {"moved": _moved(reference)}}
    return told | {"verdict": verdict(off, on, ended)}


def _side(run: Outcome, reference: Outcome, skip: tuple[str, ...]) -> dict[str, Any]:
    told: dict[str, Any] = {"seconds": round(run.seconds, 1)}
    if run.hung and len(run.ranks) < 2:
        return {**told, "ended": "hang", "message": _last(run)}
    if len(run.ranks) < 2:
        return {**told, "ended": "crash", "message": _last(run)}
    found = oracle.compare(run.ranks, reference.ranks, skip=skip, alone=True)
    told["error"] = float(f"{found.worst[0][0]:.2g}") if found.worst else None
    if run.returncode:
        told["message"] = f"trained; then: {_last(run)}"
    if found:
        return {**told, "ended": "right"}
    return {**told, "ended": "wrong", "message": f"{len(found.faults)} faults: {found.faults[0]}"}


def verdict(off: dict[str, Any], on: dict[str, Any], ended: Mapping[str, Outcome]) -> str:
    """In words of the page."""
    stopped = next((f for f in ended["on"].findings if f["outcome"] == "stopped"), None)
    if off["ended"] == "right":
        if on["ended"] != "right":
            return f"healthy run broken: {on['ended']}"
        same = oracle.bitwise(ended["on"].ranks, ended["off"].ranks)
        return "healthy and bitwise equal" if same else "healthy, and changed"
    if on["ended"] == "right":
        return f"{off['ended']} → right"
    if stopped is not None and on["ended"] != "wrong":
        on["message"] = f"{stopped['code']}: {' '.join(stopped['why'].split())[:300]}"
        return f"{off['ended']} → stopped ({stopped['code']})"
    word, shows = ("warned", _warned) if on["ended"] == "wrong" else ("told before", _possible)
    codes = sorted({f["code"] for f in ended["on"].findings if shows(f)})
    told = f" ({word}: {', '.join(codes)})" if codes else ""
    return f"{off['ended']}, and {on['ended']} with it{told}"


def _possible(finding: Mapping[str, Any]) -> bool:
    """Whether it was said up front as possible, and left alone: nothing was known for certain."""
    ahead = finding["code"].startswith("VG10") and finding["level"] == "note"
    return ahead and finding["outcome"] not in ("fixed", "set")


def _warned(finding: Mapping[str, Any]) -> bool:
    """Whether the ledger warned of it in the run: gradients or weights are not what they should."""
    return finding["code"].startswith("VG6") and finding["outcome"] == "warned"


def _moved(run: Outcome) -> int:
    first = run.ranks[0]
    return sum(bool((first.final[name] != value).any()) for name, value in first.initial.items())


def _last(run: Outcome) -> str:
    """The last line that names an exception, without what differs from run to run."""
    named = re.compile(r"\w+(Error|Exception)\b|what\(\):")
    lines = [line for line in run.output.splitlines() if named.search(line)]
    lines = [line for line in lines if "ChildFailedError" not in line] or run.output.splitlines()
    own = [line for line in lines if not re.search(r"Connection (reset|closed)", line)]
    lines = own or lines  # only ranks that waited for the failed one
    text = lines[-1] if lines else "no word"
    return " ".join(re.sub(r"0x[0-9a-f]+|/\S+/|\[[0-9.:]+\]:?\d*", "…", text).split())[:300]
