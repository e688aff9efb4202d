"""Reads numbers out of records, whatever a station could read: what is missing is None.

Of a station's numbers (`Verdict.shown`) these are known; others are kept in the report, not shown:

* ``towers``: tower → ``reached`` (tensors that got a gradient), ``moved`` (tensors that moved),
  ``gradient`` and ``update`` (norms), ``lr``
* rows: ``targets``, target tokens of the window over all ranks; ``rows``: of some of them the
  ``rank``, ``row``, ``kind``, and ``pieces``: [text, weight in the loss] each, None for no target
* targets: ``tokens`` that carry weight, ``sum`` of their weights
* reach: ``trained``: tower → tensors that got a gradient
* reduce: ``norms``: tower → norm of its gradient; ``factor`` common to all tensors
* update: ``groups``: the ``lr`` of each of the optimizer's groups
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlmguard.ledger.account import STATIONS

Record = Mapping[str, Any]
_BY_TOWER = (("reach", "trained", "reached"), ("reduce", "norms", "gradient"))
"""Station, its numbers by tower, what they are called here."""


def station(record: Record, name: str) -> Mapping[str, Any]:
    """What a station said in a window; {} if nothing."""
    return mapping(mapping(record.get("stations")).get(name))


def shown(record: Record, name: str) -> Mapping[str, Any]:
    """A station's numbers."""
    return mapping(station(record, name).get("shown"))


def state(record: Record, name: str) -> str:
    """balances, differs, cannot tell or idle."""
    return str(station(record, name).get("state") or "idle")


def over_all(records: Sequence[Record], name: str) -> tuple[str, str]:
    """A station's state over several windows, and why it could not be read. One window that
    differs decides; one that could be read is enough."""
    states = [state(record, name) for record in records]
    found = next((s for s in ("differs", "balances", "cannot tell") if s in states), "idle")
    reasons = (str(station(record, name).get("reason") or "") for record in records)
    return found, next(filter(None, reasons), "") if found == "cannot tell" else ""


def entries(record: Record) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Station and entry, of all that was found in a window."""
    for name in STATIONS:
        for entry in sequence(station(record, name).get("entries")):
            yield name, mapping(entry)


def towers(record: Record) -> dict[str, dict[str, Any]]:
    """Tower → what the account and all stations know of it; "model" where there are no towers."""
    found = {kind: dict(mapping(t)) for kind, t in mapping(record.get("towers")).items()}
    for name in STATIONS:
        for kind, values in mapping(shown(record, name).get("towers")).items():
            found.setdefault(kind, {}).update(mapping(values))
    for name, numbers, key in _BY_TOWER:
        for kind, value in mapping(shown(record, name).get(numbers)).items():
            found.setdefault(kind, {}).setdefault(key, value)
    for tower in found.values():
        if not tower.get("lr") and (rates := _rates(record, tower)):
            tower["lr"] = rates
    return {"model": found["other"]} if list(found) == ["other"] else found


def _rates(record: Record, tower: Mapping[str, Any]) -> list[float]:
    """Learning rates of the optimizer's groups that hold a part of a tower."""
    groups = sequence(shown(record, "update").get("groups"))
    held = [mapping(groups[n]) for n in sequence(tower.get("groups")) if -1 < n < len(groups)]
    return sorted({rate for group in held if (rate := number(group.get("lr"))) is not None})


def targets(records: Sequence[Record]) -> float | None:
    """Target tokens of a window, in the mean."""
    known = [value for record in records if (value := _targets(record)) is not None]
    return sum(known) / len(known) if known else None


def _targets(record: Record) -> float | None:
    labelled = number(shown(record, "rows").get("targets"))
    return number(shown(record, "targets").get("tokens")) if labelled is None else labelled


def steps(records: Sequence[Record]) -> list[int]:
    """Numbers of the watched steps, in order."""
    read = [number(record.get("step")) for record in records]
    return [int(value) for value in read if value is not None]


def number(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> Sequence[Any]:
    """``value`` if it is a list, else an empty one."""
    return value if isinstance(value, (list, tuple)) else ()
