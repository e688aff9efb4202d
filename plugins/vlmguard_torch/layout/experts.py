"""Experts that are modules of their own: which, and whether DeepSpeed gathers them together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from vlmguard_torch.layout.towers import plain

_LEAF = "_z3_leaf"
"""What `deepspeed.utils.set_z3_leaf_modules` leaves on a module."""


def alone(model: torch.nn.Module, leaves: Iterable[str] = ()) -> str:
    """The path of the first list of experts that are gathered one by one; "" where there is none.

    leaves: names of classes that will be made leaf modules when the model is wrapped.
    """
    whole: list[str] = []
    names = set(leaves)
    for path, module in model.named_modules():
        if any(path.startswith(above + ".") for above in whole):
            continue
        if getattr(module, _LEAF, False) or type(module).__name__ in names:
            whole.append(path)
        elif _is_list_of_experts(path, module):
            return plain(path)
    return ""


def _is_list_of_experts(path: str, module: Any) -> bool:
    is_list = isinstance(module, torch.nn.ModuleList) and len(module) > 1
    return is_list and path.rpartition(".")[2] == "experts"
