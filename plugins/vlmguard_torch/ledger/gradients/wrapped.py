"""Whether a forward runs inside DDP, and what DDP was told to do with gradients."""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import DistributedDataParallel


def now(model: Any) -> tuple[str, list[Any]]:
    """Of the forward that is running: "ddp", "no_sync", "" outside; and DDP's hooks."""
    ddp = getattr(DistributedDataParallel, "_active_ddp_module", None)
    if ddp is None or all(each is not model for each in ddp.module.modules()):
        return "", []
    hooks = [hook for hook, _ in getattr(ddp, "_comm_hooks", ())]
    return "ddp" if ddp.require_backward_grad_sync else "no_sync", hooks
