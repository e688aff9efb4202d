"""A training framework as small as one can be: DDP, gradient checkpointing, one optimizer.

Not installed with the adapter: it stands for the framework that you write yours for.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

__version__ = "1.0"


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.use_reentrant: bool | None = None  # None: not checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.use_reentrant is None:
            return x + self.inner(x)
        return x + checkpoint(self.inner, x, use_reentrant=self.use_reentrant)


class Model(nn.Module):
    def __init__(self, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.head = nn.Linear(width, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.head(x)).square().mean()


class Loop:
    """Trains ``model``; the process group, if there is one, is initialised by the script."""

    def __init__(self, model: nn.Module, use_reentrant: bool = True, find_unused: bool = True):
        self.model = model
        self.use_reentrant = use_reentrant
        self.find_unused = find_unused

    def fit(self, rows: list[torch.Tensor]) -> None:
        for module in self.model.modules():
            if isinstance(module, Block):
                module.use_reentrant = self.use_reentrant
        model = self.model
        if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            model = nn.parallel.DistributedDataParallel(
                model, find_unused_parameters=self.find_unused
            )
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for row in rows:
            self.step(model, optimizer, row)

    def step(self, model: nn.Module, optimizer: torch.optim.Optimizer, row: torch.Tensor) -> None:
        model(row).backward()
        optimizer.step()
        optimizer.zero_grad()
