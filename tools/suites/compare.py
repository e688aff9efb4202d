"""What came of a suite: outcomes side by side, and the record that is committed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parents[2] / "docs" / "data" / "suites.jsonl"
_HUB = (
    "LocalEntryNotFoundError", "OfflineModeIsEnabled", "couldn't connect to", "outgoing traffic",
    "is not a local folder and is not a valid model identifier", "Couldn't reach",
    "ConnectionError",
    "Cannot find a cached", "Can't load tokenizer for", "Can't load image processor", "offline",
    "Max retries exceeded", "does not appear to have a file named", "Unable to load vocabulary",
    "cannot find the requested files in", "Cannot find an appropriate cached", "MaxRetryError",
    "NameResolutionError", "Connection error", "URLError", "ConnectError",
)  # fmt: skip


def lines(file: Path) -> Iterator[dict[str, Any]]:
    """All JSON lines of a file; none where there is no file."""
    if file.exists():
        for line in file.read_text("utf-8").splitlines():
            yield json.loads(line)


def ends(file: Path) -> dict[str, dict[str, Any]]:
    """Test id → how it ended."""
    return {line["test"]: line for line in lines(file) if "test" in line}


def unfinished(file: Path) -> str | None:
    """The test that had begun and not ended."""
    begun = [line.get("begun") for line in lines(file)]
    return begun[-1] if begun and begun[-1] else None


def outcome(line: dict[str, Any]) -> str:
    """What has to be equal: the outcome, of a failure the exception's type, steps and weights."""
    why = str(line.get("why", "")).partition(":")[0]
    steps = f"after {line['steps']} steps: {line['sum']:08x}" if line.get("steps") else ""
    return " ".join(filter(None, (line["outcome"], why, steps)))


def plain(said: str) -> str:
    """An `outcome` without steps and weights."""
    return said.partition(" after ")[0]


def too_long(line: dict[str, Any]) -> bool:
    """Whether it took longer than a test may (the exception can be wrapped in another one)."""
    return "Timeout: more than" in str(line.get("why", "")) or line["outcome"] == "hung"


def asks_hub(line: dict[str, Any]) -> bool:
    """Whether it failed because what it asked a hub for is not here."""
    bad = line["outcome"] in ("failed", "error", "uncollected")
    return bad and any(sign in str(line.get("why", "")) for sign in _HUB)


def differing(off: Path, on: Path) -> list[str]:
    """Ids of tests whose outcomes are not the same."""
    left, right = ends(off), ends(on)
    both = [test for test in left if test in right and not _left_out(left[test])]
    return [test for test in both if outcome(left[test]) != outcome(right[test])]


def in_short(off: Path, on: Path) -> str:
    """One line for who waits."""
    left, right = ends(off), ends(on)
    kinds = Counter("asks a hub" if asks_hub(line) else line["outcome"] for line in left.values())
    met = [line["met"] for line in right.values() if line.get("met", {}).get("calls")]
    said = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    runs, towers = sum(bool(m["runs"]) for m in met), sum(bool(m["towers"]) for m in met)
    return (
        f"{said}; {len(met)} called the guard, {runs} had a run judged, {towers} with towers; "
        f"{len(differing(off, on))} differ"
    )


def records(work: Path, name: str) -> Iterator[dict[str, Any]]:
    """One record a test: its outcomes, whether it met the guard, the verdict.

    Of a file that is not done on both sides, only tests that both sides have.
    """
    for off in sorted((work / name).glob("*.off.jsonl")):
        on = off.with_name(off.name.replace(".off.", ".on."))
        again = ends(off.with_name(off.name.replace(".off.", ".again.")))
        left, right = ends(off), ends(on)
        whole = all(file.with_suffix(".end").exists() for file in (off, on))
        for test in left.keys() | right.keys() if whole else left.keys() & right.keys():
            yield _record(name, test, left.get(test), right.get(test), again.get(test))


def _record(name: str, test: str, off: Any, on: Any, again: Any) -> dict[str, Any]:
    sides = {"off": outcome(off) if off else "absent", "on": outcome(on) if on else "absent"}
    met = (on or {}).get("met") or {}
    line = {"suite": name, "test": test, **sides, "met": {k: met.get(k, 0) for k in _MET}}
    line["steps"] = (off or {}).get("steps", 0)
    line["ran"] = bool(off) and not _left_out(off)
    line["verdict"] = _verdict(sides, again) if line["ran"] else "alike"
    if said := [text for text in met.get("said", ()) if text.startswith("VG")]:
        line["said"] = said
    if line["verdict"] != "alike":
        line |= {"why": [str((each or {}).get("why", "")) for each in (off, on)], "again": again}
    return line


def _left_out(off: dict[str, Any]) -> bool:
    return off["outcome"] == "skipped" or asks_hub(off) or too_long(off)


_MET = ("calls", "runs", "towers")


def _verdict(sides: dict[str, str], again: Any) -> str:
    """alike; flaky (a side is not like itself, or both were alike when repeated); differs.

    Weights that vary without the guard, too, are flaky; outcomes are compared all the same.
    """
    if sides["off"] == sides["on"]:
        return "alike"
    if not again:
        return "differs"
    off, on = ({sides[side], *again[side]} for side in ("off", "on"))
    ends_apart = _apart({*map(plain, off)}, {*map(plain, on)})
    return "differs" if ends_apart or _apart(off, on) else "flaky"


def _apart(off: set[str], on: set[str]) -> bool:
    return len(off) == len(on) == 1 and off != on


def write(work: Path, name: str, head: dict[str, str]) -> None:
    """docs/data/suites.jsonl: a head a suite, then its tests that ran or differ."""
    kept = [line for line in lines(RECORD) if line["suite"] != name]
    found = sorted(records(work, name), key=lambda line: str(line["test"]))
    kept.append({"suite": name, "head": {**head, "tests": len(found)}})
    kept += [line for line in found if line["ran"] or line["verdict"] != "alike"]
    RECORD.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


def differences() -> list[dict[str, Any]]:
    """Records of tests that are not the same with the guard."""
    return [line for line in lines(RECORD) if line.get("verdict") == "differs"]
