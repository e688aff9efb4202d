"""A loop around `Accelerator.prepare` whose backward raises at step 30, when nothing is left to
look at in its steps.

    python late_loop.py
"""

from __future__ import annotations

import dataclasses

import accelerate
import torch

from tools.matrix import families
from tools.ordinary import draws, models, rows

LATE = 30
DRAW = dataclasses.replace(draws.draw(24, 1, draws.LONG + 2), steps=LATE + 1)


class Wrong(torch.autograd.Function):
    """Raises what DDP says of reentrant checkpointing."""

    @staticmethod
    def forward(_, x):
        return x.clone()

    @staticmethod
    def backward(*_):
        raise RuntimeError("Expected to mark a variable ready only once.")


model = models.make(DRAW)
collate = rows.Collate(families.of(DRAW.model), model)
data = torch.utils.data.DataLoader(rows.Rows(rows.plan(DRAW, DRAW.steps)), collate_fn=collate)
accelerator = accelerate.Accelerator(cpu=True)
model, optimizer, data = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters(), 1e-3), data
)
for number, batch in enumerate(data):
    loss = model(**batch).loss
    if number == LATE:
        from vlmguard.runtime import seams

        print("rests:", sorted(place.name for place in seams._places if place.rests), flush=True)
        loss = Wrong.apply(loss)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
