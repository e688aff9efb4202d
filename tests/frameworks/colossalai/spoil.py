"""What a case does to its model and data to make a defect visible."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import models
import torch


def model(plain: torch.nn.Module, case: dict[str, Any]) -> None:
    """The defects that a case asks for."""
    if case["blind"]:
        for name, module in plain.named_children():
            if name in models.TOWERS:
                module.forward = torch.no_grad()(module.forward)
    if case["unusual"] in ("mapping", "pairs"):
        plain.forward = _of_one(plain.forward)


def _of_one(call: Callable[..., Any]) -> Callable[..., Any]:
    """A forward that takes its batch as one argument."""
    return lambda batch: call(**dict(batch))


def without(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A forward that does not take the argument ``name``."""

    def narrowed(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop(name, None)
        return call(*args, **kwargs)

    return narrowed


def lazily(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    """ColossalAI's own lazy initialisation, where it is wanted."""
    if not wanted:
        return contextlib.nullcontext()
    from colossalai.lazy import LazyInitContext

    return LazyInitContext()


def loader(batches: models.Batches, what: str) -> Any:
    """A dataloader whose collation draws random numbers, as augmentation does."""

    def collate(rows: list[int]) -> Any:
        torch.rand(3)
        random.random()
        return batches.make(what, seed=7)

    return torch.utils.data.DataLoader([0, 1], batch_size=2, collate_fn=collate)
