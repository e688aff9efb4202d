"""DistributedDataParallel: plain, with find_unused_parameters, with a static graph."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from tools.lab.strategies import RATE

BUCKET_MB = 0.004
"""About 1,000 elements: several buckets in a tiny model."""


_OPTIONS = {
    "ddp": {},
    "ddp_find_unused": {"find_unused_parameters": True},
    "ddp_static": {"static_graph": True},
}


class DDP:
    """Micro-steps before the last run under ``no_sync``, as accelerate does it."""

    def __init__(self, model: Any, strategy: str, accumulation: int) -> None:
        self.accumulation = accumulation
        self.ddp: Any = DistributedDataParallel(
            model,
            bucket_cap_mb=BUCKET_MB,  # torch takes fractions
            **_OPTIONS[strategy],
        )
        self.optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], RATE)

    def _sync(self, last: bool) -> Any:
        return contextlib.nullcontext() if last else self.ddp.no_sync()

    def forward(self, batch: Any, last: bool) -> Any:
        """The loss."""
        with self._sync(last):
            return self.ddp(batch)

    def backward(self, loss: Any, last: bool) -> None:
        """Gradients."""
        with self._sync(last):
            (loss / self.accumulation).backward()

    def step(self) -> None:
        """Update and forget the gradients."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self) -> dict[str, Any]:
        """Whole weights."""
        return {n: p.detach().numpy().copy() for n, p in self.ddp.module.named_parameters()}
