"""How far the weights of a pass moved from where those of the reference moved to.

Updates are compared, not weights: w(end of a window) - w(its begin), in float64.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from vlmguard.ranks import run
from vlmguard.rehearse.fixture import Scene
from vlmguard.rehearse.training_rows import Window

TOLERANCE = 2e-3
"""Relative, fp32: far above rounding (some 1e-5), far below any defect seen (0.05 and up)."""
SURELY, LIKELY = 10, 4
"""How many times what rounding alone was measured to make: more than ``SURELY`` is a defect, up to
``LIKELY`` is rounding, and what lies between says nothing."""
_FLOOR = 1e-3
"""A tensor whose update is this much smaller than the largest counts as one of that size: an
update that is zero in exact arithmetic is rounding noise."""

Weights = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """One window of a pass against the same window of its reference.

    Attributes:
        errors: tensor → relative error of its update, the worst first.
        drift: the largest relative difference between two ranks, and the tensor.
        moved: tensors that moved in the reference.
        fault: why nothing can be said; "" where it can.
        rounding: what the reference itself differs by with another order of sums; 0 where that
            was not measured.
    """

    errors: Mapping[str, float] = field(default_factory=dict)
    drift: tuple[float, str] = (0.0, "")
    moved: frozenset[str] = frozenset()
    fault: str = ""
    rounding: float = 0.0

    @property
    def bound(self) -> float:
        """An update that is off by more is wrong."""
        return max(TOLERANCE, SURELY * self.rounding)

    @property
    def worst(self) -> float:
        return next(iter(self.errors.values()), 0.0)

    @property
    def wrong(self) -> list[str]:
        return [name for name, error in self.errors.items() if error > self.bound]


def windows(
    scene: Scene, reference: Scene, of: Sequence[Window], ranks: tuple[int, int], limit: float
) -> list[Difference] | str:
    """Each window of a pass against its reference's, or why they could not be compared.

    ranks: of the pass, and of the reference.
    """
    pairs = list(pairwise([0, *(window.last for window in of)]))

    def work(_: int) -> list[Difference]:
        return [between(scene, reference, a, b, *ranks) for a, b in pairs]

    compared = run(work, 1, "none", limit)
    if compared.verdict != "ok":
        cause = compared.cause
        return f"the weights could not be compared: {cause.message if cause else ''}"
    found: list[Difference] = compared.outcomes[0].value
    return found


def between(run: Scene, reference: Scene, before: int, after: int, ranks: int, own: int) -> Any:
    """Read both passes' weights and compare them. ranks: of the run; own: of the reference."""
    ours = [(weights(run, before, ranks, r), weights(run, after, ranks, r)) for r in range(ranks)]
    theirs = weights(reference, before, own, 0), weights(reference, after, own, 0)
    return difference(ours, theirs, begins=before == 0)


def weights(scene: Scene, step: int, ranks: int, rank: int) -> Weights:
    """A rank's whole weights after a step: parts are put together from all ranks' files."""
    file = scene.weights(step, rank)
    shapes = json.loads(file.with_suffix(".json").read_text())
    with np.load(file) as kept:
        found = {name: kept[name] for name in kept.files}
    if shapes:
        parts = [_arrays(scene, step, r, shapes) for r in range(ranks)]
        for name, shape in shapes.items():
            whole = np.concatenate([part[name] for part in parts])
            found[name] = whole[: int(np.prod(shape))].reshape(shape)
    return found


def _arrays(scene: Scene, step: int, rank: int, names: Mapping[str, Any]) -> Weights:
    with np.load(scene.weights(step, rank)) as kept:
        return {name: kept[name] for name in names}


def difference(
    ranks: Sequence[tuple[Weights, Weights]], reference: tuple[Weights, Weights], begins: bool
) -> Difference:
    """Each rank's weights before and after, against the reference's.

    begins: whether "before" is the first step's, where both must be equal.
    """
    before, after = ranks[0]
    known, wanted = reference
    odd = sorted(set(before) ^ set(known))
    if odd:
        return Difference(fault=f"{odd[0]} trains in one of both only")
    if begins:
        other = next((n for n in known if not np.array_equal(before[n], known[n])), "")
        if other:
            return Difference(fault=f"{other} begins with other weights than the reference's")
    parted = sorted(name for one in (after, wanted) for name in set(known) ^ set(one))
    if parted:
        ends = [{name: end[name] for name in end if all(name in one for _, one in ranks)}
                for _, end in ranks]  # fmt: skip
        return Difference(drift=drift(ends, {}),
                          fault=f"{parted[0]} trains at some of the steps only")  # fmt: skip
    updates = {name: _wide(wanted[name]) - _wide(known[name]) for name in known}
    sizes = {name: float(np.linalg.norm(update)) for name, update in updates.items()}
    top = max(sizes.values(), default=0.0)
    if not np.isfinite(list(sizes.values())).all():  # max() of a NaN and a number may be either
        return Difference(fault="the reference's updates are not finite")
    moved = frozenset(name for name, size in sizes.items() if size > 1e-6 * top)
    errors = {}
    for name, update in updates.items():
        off = float(np.linalg.norm(_wide(after[name]) - _wide(before[name]) - update))
        off = off if np.isfinite(off) else float("inf")
        errors[name] = off / max(sizes[name], _FLOOR * top) if top else off
    ordered = dict(sorted(errors.items(), key=lambda item: -item[1]))
    drifted = drift([end for _, end in ranks], sizes)
    return Difference(ordered, drifted, moved if top else frozenset())


def drift(ends: Sequence[Weights], sizes: Mapping[str, float]) -> tuple[float, str]:
    """The largest difference of a rank's weights from the first's, and the tensor.

    sizes: of each tensor's update, which the difference is relative to.
    """
    worst = (0.0, "")
    top = max(sizes.values(), default=0.0)
    for after in ends[1:]:
        for name, value in ends[0].items():
            off = float(np.linalg.norm(_wide(value) - _wide(after[name])))
            off = off if np.isfinite(off) else float("inf")
            scale = max(sizes.get(name, 0.0), _FLOOR * top) or 1.0
            worst = max(worst, (off / scale, name))
    return worst


def _wide(array: Any) -> Any:
    return np.asarray(array, dtype=np.float64).reshape(-1)
