"""What the ledger said of a run, from the report's lines, and what that comes to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.ledger.catalogue import BY_STEP, SHOWN_IS_ENOUGH

Record = Mapping[str, Any]
_SHOWN = ("tokens", "weights", "residual", "rates", "groups", "training", "towers", "targets")


def records(folder: Path, since: float = 0.0) -> list[dict[str, Any]]:
    """One a window, in their order, of what was reported from a time on."""
    lines = [json.loads(line) for file in sorted(folder.glob("findings*.jsonl"))
             for line in file.read_text().splitlines()]  # fmt: skip
    return of_lines([each for each in lines if each["time"] >= since])


def faults(folder: Path) -> list[str]:
    """Of our own, that were caught."""
    lines = [
        json.loads(line)
        for file in folder.glob("findings*")
        for line in file.open("r", encoding="utf-8")
    ]
    return [f"VG902 {line['why']}" for line in lines if line.get("code") == "VG902"]


def of_lines(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those of the report's lines that are the ledger's."""
    return sorted((dict(each) for each in lines if each["kind"] == "ledger"), key=_window)


def _window(record: Record) -> int:
    return int(record["window"] or 0)


def entries(
    records: Sequence[Record], level: str = ""
) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Step (from 1, of this run), station and entry."""
    for record in records:
        for station, told in record["stations"].items():
            for entry in told["entries"]:
                if level in ("", entry["level"]):
                    yield _window(record) + 1, station, entry


def alarms(records: Sequence[Record]) -> list[str]:
    """Warnings, each once."""
    return _each(records, "warning")


def notes(records: Sequence[Record]) -> list[str]:
    """What is only shown, each once."""
    return _each(records, "note")


def _each(records: Sequence[Record], level: str) -> list[str]:
    found: dict[str, str] = {}
    for step, station, entry in entries(records, level):
        found.setdefault(entry["code"], f"{entry['code']} {station}, step {step}: {_words(entry)}")
    return list(found.values())


def _code(entry: Mapping[str, Any]) -> str:
    return str(entry["code"])


def _words(entry: Mapping[str, Any]) -> str:
    why, what = entry["why"], entry["what"]
    return (why if not what or what in why else f"{what}: {why}")[:400]


def states(records: Sequence[Record]) -> dict[str, str]:
    """Of each station the last window's state, with its reason."""
    last = records[-1]["stations"] if records else {}
    return {name: f"{told['state']} {told['reason']}".strip()[:120] for name, told in last.items()}


def judge(known: Record, right: Sequence[Record], wrong: Sequence[Record]) -> dict[str, Any]:
    """Whether an error was told, shown or missed, by which code, station and step."""
    found = list(entries(wrong, "warning"))
    by_code = [each for each in found if each[2]["code"] in known["codes"] and each[0] <= BY_STEP]
    others = sorted({entry["code"] for _, _, entry in found} - set(known["codes"]))
    told = {"others": others, "notes": notes(wrong), "stations": states(wrong)}
    if by_code:
        step, station, entry = min(by_code, key=lambda each: each[0])
        return told | {"verdict": "told", "step": step, "station": station, "code": entry["code"],
                       "said": _words(entry)}  # fmt: skip
    where = shown(known, right, wrong)
    if where:
        return told | {"verdict": "shown", "said": where}
    return told | {"verdict": "otherwise" if found else "missed"}


def shown(known: Record, right: Sequence[Record], wrong: Sequence[Record]) -> str:
    """A note that the healthy run has not, or has of others; or a station's numbers that differ."""
    told = _words if known["kind"] in SHOWN_IS_ENOUGH else _code
    before = {told(entry) for _, _, entry in entries(right, "note")}
    for step, station, entry in entries(wrong, "note"):
        if told(entry) not in before:
            return f"note {entry['code']} at {station}, step {step}: {_words(entry)}"
    if known["kind"] not in SHOWN_IS_ENOUGH or not known["seen"]:
        return ""
    healthy, faulty = (_numbers(records, known["seen"]) for records in (right, wrong))
    return f"{known['seen']}: {faulty} (healthy: {healthy})"[:400] if healthy != faulty else ""


def _numbers(records: Sequence[Record], where: str) -> list[Any]:
    """What stands at "update.rates" or "towers.vision.trainable" in each window."""
    return [_at(record, where) for record in records[:BY_STEP]]


def _at(record: Record, where: str) -> Any:
    first, *rest = where.split(".")
    found: Any = (
        record.get(first) if first in record else record["stations"].get(first, {}).get("shown")
    )
    for word in rest:
        found = found.get(word) if isinstance(found, Mapping) else None
    return found


def line(told: Record) -> str:
    """A record on one line."""
    head = f"{told['what']} {told['name']}: {told['verdict']}"
    if told["what"] == "injection":
        more = [
            f"kind {told['kind']}",
            f"step {told['step']} {told['code']}" if "step" in told else "",
        ]
        more += [str(told.get("said") or told.get("why") or ""), f"others {told.get('others')}"]
        more += [f"ALARMS when healthy {told['alarms']}"] if told.get("alarms") else []
    else:
        more = [str(told.get("why", "")), *told.get("alarms", ()), *told.get("notes", ())]
    return f"{head} | {' | '.join(each for each in more if each)}"
