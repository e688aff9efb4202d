"""The oracle: the same rows in one process, in plain torch. Nothing of a framework's, nothing of
the guard's: gradients averaged over ranks and micro-batches, zeros where a rank has none, SGD
without clipping."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tools.matrix import families, models, rows
from tools.matrix.cells import Cell

BOUNDS = {"exact": 1e-3, "near": 1e-4, "noise": ()}
"""Relative error of the worst tensor's update that counts as right (right ones have 1e-7 to 1e-4),
of a mean evaluation loss of about 6, and ends of names that are left out."""


def reference(cell: Cell) -> dict[str, Any]:
    """{"before", "after": name → array, "evaluated", "tokens": of each rank, and `BOUNDS`}."""
    torch.set_num_threads(1)
    model = models.make(cell)
    collate = rows.Collate(families.of(cell.model), models.rows_of(model))
    named = dict(model.named_parameters())
    trained = [p for p in named.values() if p.requires_grad]
    before = {name: _array(p) for name, p in named.items()}
    optimizer = torch.optim.SGD(trained, models.RATE)
    evaluated: list[float] = []
    tokens: list[list[list[int]]] = [[] for _ in range(rows.WORLD)]
    shares = rows.WORLD * rows.accumulation(cell.order)
    data = rows.Rows(rows.flat(cell.order))
    for first in range(0, len(data), shares):
        for number in range(first, first + shares):
            (model(**collate([data[number]])).loss / shares).backward()
        optimizer.step()
        optimizer.zero_grad()
        if cell.order == "between":
            evaluated.append(_evaluate(model, collate, tokens))
    after = {name: _array(p) for name, p in named.items()}
    each = [evaluated] * rows.WORLD
    return {"before": before, "after": after, "evaluated": each, "tokens": tokens, **BOUNDS}


def _evaluate(model: Any, collate: rows.Collate, tokens: list[list[list[int]]]) -> float:
    """The mean loss; new tokens are put with their rank's."""
    data = rows.evaluated()
    model.eval()
    losses = []
    for number in range(len(data)):
        batch = collate([data[number]])
        tokens[number % rows.WORLD].append(models.tokens(model, batch))
        with torch.no_grad():
            losses.append(model(**batch).loss.item())
    model.train()
    return sum(losses) / len(losses)


def _array(parameter: torch.Tensor) -> np.ndarray:
    return parameter.detach().numpy().copy()
