"""What a case does to its model to make a defect visible."""

from __future__ import annotations

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


def without(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A forward that does not take the argument ``name``."""

    def narrowed(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop(name, None)
        return call(*args, **kwargs)

    return narrowed
