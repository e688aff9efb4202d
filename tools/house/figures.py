"""docs/data/house.json: what `python -m tools.house --write` measured, before and now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[2] / "docs" / "data" / "house.json"
BEFORE, NOW = "before", "now"


def load() -> dict[str, Any]:
    """Side → kind of model ("new", "known") → figure → number."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    return found


def keep(measured: list[dict[str, Any]], side: str = NOW) -> None:
    """Put one side's figures in the place of its earlier ones."""
    told: dict[str, dict[str, float]] = {}
    for each in measured:
        numbers = {key: value for key, value in each.items() if isinstance(value, int | float)}
        told.setdefault(each["model"], {}).update(numbers)
    FILE.write_text(json.dumps({**load(), side: told}, indent=1, sort_keys=True) + "\n", "utf-8")
