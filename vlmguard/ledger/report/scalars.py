"""The numbers of a window for a trainer's own logs. What could not be read is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlmguard.ledger.account import STATIONS
from vlmguard.ledger.report import figures
from vlmguard.ledger.report.figures import Record

KEPT = "ledger scalars"
"""Where a run's state keeps those of its last window, until they are logged."""
_STATES = {"balances": 1.0, "differs": 0.0}
_OF_A_TOWER = ("reached", "moved", "gradient", "update")


def scalars(record: Record) -> dict[str, float]:
    """``vlmguard/…`` → number."""
    found: dict[str, Any] = {name: _STATES.get(figures.state(record, name)) for name in STATIONS}
    found["target_tokens"] = figures.targets([record])
    found["weights_sum"] = figures.shown(record, "targets").get("sum")
    found["gradient_factor"] = figures.shown(record, "reduce").get("factor")
    for kind, tower in figures.towers(record).items():
        found |= _tower(kind, tower)
    known = {f"vlmguard/{key}": figures.number(value) for key, value in found.items()}
    return {key: float(value) for key, value in known.items() if value is not None}


def _tower(kind: str, tower: Mapping[str, Any]) -> dict[str, Any]:
    rates = figures.sequence(tower.get("lr")) or (tower.get("lr"),)
    numbers = {f"{kind}/{key}": tower.get(key) for key in _OF_A_TOWER}
    return {**numbers, f"{kind}/lr": rates[-1]}
