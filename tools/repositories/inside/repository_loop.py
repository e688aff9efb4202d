"""Keeps the weights of a loop that has no Trainer: before DDP takes its model, and at the end.

Each rank leaves its model as it began and the batches that it had, for `repository_replay`.
"""

from __future__ import annotations

import atexit
import functools
import os
from pathlib import Path
from types import ModuleType
from typing import Any


def install(distributed: ModuleType) -> None:
    """Look on where DDP takes the model."""
    ddp = distributed.DistributedDataParallel
    begin = ddp.__init__

    @functools.wraps(begin)
    def __init__(self: Any, module: Any, *args: Any, **named: Any) -> None:
        _keep(module)
        begin(self, module, *args, **named)

    ddp.__init__ = __init__


def _keep(module: Any) -> None:
    import torch
    from vlmguard_train import _weights

    folder = Path(os.environ["VLMGUARD_TEST_CAPTURE"])
    folder.mkdir(parents=True, exist_ok=True)
    number = os.environ["RANK"]
    torch.save(module, folder / f"begun{number}.module")
    batches: list[Any] = []
    losses: list[float] = []
    module.register_forward_pre_hook(
        lambda m, args, named: batches.append((args, named)) if m.training else None,
        with_kwargs=True,
    )
    module.register_forward_hook(lambda m, args, out: losses.append(float(out[1])))
    atexit.register(torch.save, batches, folder / f"batches{number}.list")
    atexit.register(write, module, _weights(module), losses, "DistributedDataParallel")


def write(module: Any, initial: Any, losses: list[float], wrapped: str) -> None:
    """What the oracle compares."""
    from vlmguard_capture import Rank
    from vlmguard_capture import write as write_rank
    from vlmguard_train import _digests, _weights

    rank = Rank(
        rank=int(os.environ.get("RANK", "0")),
        world=int(os.environ.get("WORLD_SIZE", "1")),
        wrapped=wrapped,
        initial=initial,
        final=_weights(module, initial.keys()),
        losses=losses,
        digests=_digests(module),
    )
    write_rank(os.environ["VLMGUARD_TEST_CAPTURE"], rank)
