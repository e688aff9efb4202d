"""How far a run's updates are from the reference's, and its ranks' from each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

TOLERANCE = 2e-3
"""Relative, fp32: far above rounding (some 1e-5), far below any defect seen (0.05 and up)."""
_FLOOR = 1e-3
"""A tensor whose update is this much smaller than the largest counts as one of that size: an
update that is zero in exact arithmetic is rounding noise."""


def error(before: Mapping[str, Any], after: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    """The largest relative error of a tensor's update; infinite if a tensor is missing.

    before, after: the reference run's weights. found: the weights to judge.
    """
    if set(found) != set(before):
        return float("inf")
    updates = {name: _wide(after[name]) - _wide(before[name]) for name in before}
    sizes = {name: float(np.linalg.norm(update)) for name, update in updates.items()}
    floor = _FLOOR * max(sizes.values())
    worst = 0.0
    for name, update in updates.items():
        if np.shape(found[name]) != np.shape(before[name]):
            return float("inf")
        off = float(np.linalg.norm(_wide(found[name]) - _wide(before[name]) - update))
        worst = max(worst, off / max(sizes[name], floor)) if off == off else float("inf")
    return worst


def drift(
    before: Mapping[str, Any], after: Mapping[str, Any], ranks: list[Mapping[str, Any]]
) -> float:
    """The largest relative difference of a tensor's update between two ranks."""
    updates = {n: float(np.linalg.norm(_wide(after[n]) - _wide(before[n]))) for n in before}
    floor = _FLOOR * max(updates.values())
    worst = 0.0
    for other in ranks[1:]:
        for name, value in ranks[0].items():
            off = float(np.linalg.norm(_wide(value) - _wide(other[name])))
            worst = max(worst, off / max(updates.get(name, 0.0), floor))
    return worst


def finite(weights: Mapping[str, Any]) -> bool:
    """Whether every weight is a number."""
    return all(bool(np.isfinite(_wide(array)).all()) for array in weights.values())


def _wide(array: Any) -> Any:
    return np.asarray(array, dtype=np.float64).reshape(-1)
