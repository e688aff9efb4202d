"""What a rank does with a case, and the single-process run it is compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tools.lab.cases import Case
from tools.lab.models import make
from tools.lab.models.batches import WORLD, steps
from tools.lab.strategies import RATE, wrap
from vlmguard.ranks import phase


def distributed(case: Case, rank: int, seed: int) -> dict[str, Any]:
    """Train; {"weights": name → array, "trainable": elements}."""
    phase("wrap")
    model = make.model(case, seed)
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    wrapped = wrap(model, case.strategy, case.accumulation)
    for step in range(steps(case)):
        for micro in range(case.accumulation):
            last = micro == case.accumulation - 1
            where = f"step {step}, micro-step {micro}" if case.accumulation > 1 else f"step {step}"
            phase(f"forward, {where}")
            loss = wrapped.forward(make.batch(case, rank, step, micro, seed), last)
            phase(f"backward, {where}")
            wrapped.backward(loss, last)
        phase(f"step {step}")
        wrapped.step()
    phase("weights")
    return {"weights": wrapped.weights(), "trainable": trainable}


def single(case: Case, seed: int) -> dict[str, Any]:
    """The same global batch in one process, without checkpointing or a wrapper.

    {"before": name → array, "after": name → array}.
    """
    import torch

    torch.set_num_threads(1)
    model = make.model(replace(case, checkpointing="none"), seed)
    named = dict(model.named_parameters())
    optimizer = torch.optim.SGD([p for p in named.values() if p.requires_grad], RATE)
    before = {name: p.detach().numpy().copy() for name, p in named.items()}
    shares = WORLD * case.accumulation
    for step in range(steps(case)):
        for rank in range(WORLD):
            for micro in range(case.accumulation):
                (model(make.batch(case, rank, step, micro, seed)) / shares).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"before": before, "after": {n: p.detach().numpy().copy() for n, p in named.items()}}
