"""FSDP2: every block a unit, and the model around them."""

from __future__ import annotations

from typing import Any

import torch

from tools.lab.strategies import RATE


def _fully_shard() -> Any:
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # torch 2.4 and 2.5
        from torch.distributed._composable.fsdp import fully_shard
    return fully_shard


class FSDP2:
    """Checkpointing lies around the units, as in transformers."""

    def __init__(self, model: Any, accumulation: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        shard = _fully_shard()
        mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
        for block in model.blocks():
            shard(block, mesh=mesh)
        self.model: Any = shard(model, mesh=mesh) or model
        self.accumulation = accumulation
        self.optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], RATE)

    def forward(self, batch: Any, last: bool) -> Any:
        """The loss."""
        self.model.set_requires_gradient_sync(last)
        return self.model(batch)

    def backward(self, loss: Any, last: bool) -> None:
        """Gradients."""
        (loss / self.accumulation).backward()

    def step(self) -> None:
        """Update and forget the gradients."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self) -> dict[str, Any]:
        """Whole weights."""
        for module in self.model.modules():
            if hasattr(module, "reshard"):  # the last backward left these unsharded
                module.reshard()
        return {
            name: parameter.detach().full_tensor().numpy().copy()
            for name, parameter in self.model.named_parameters()
        }
