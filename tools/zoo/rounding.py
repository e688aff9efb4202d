"""How far rounding alone moves the updates of a cell: plain torch beside plain torch whose weights
are off by one rounding step at random. Where that is as far as a run is off, the cell's random
weights, and not the run, decide.

    python -m tools.zoo.rounding CELL…     (in the zoo's environment, with timm laid over it)
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tools.matrix import judge, models, reference
from tools.matrix.cells import Cell

STEP = 2.0**-23
"""Of a number in float32, relative to it."""
SEEDS = (1, 2, 3)


def apart(cell: Cell, seed: int, known: Mapping[str, Any]) -> float:
    """The error of the worst tensor's update, as `judge` takes it."""
    own = models.make

    def made(cell: Cell) -> Any:
        model = own(cell)
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1 + STEP * torch.randint(-1, 2, weight.shape, generator=draw))
        return model

    models.make = made
    try:
        other = reference.reference(cell)
    finally:
        models.make = own
    moved = {name: known["before"][name] + _update(other, name) for name in known["after"]}
    return judge.worst([{"weights": moved}], known)


def _update(told: Mapping[str, Any], name: str) -> Any:
    return told["after"][name].astype(np.float64) - told["before"][name]


def main(keys: list[str]) -> None:
    """A line a cell."""
    warnings.simplefilter("ignore")
    for key in keys:
        cell = Cell.parse(key)
        known = reference.reference(cell)
        errors = ", ".join(f"{apart(cell, seed, known):.2g}" for seed in SEEDS)
        print(f"{key}: off by {errors}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
