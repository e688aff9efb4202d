"""Experts under ZeRO-3: which are gathered one by one, and which to gather as one leaf module."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
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


def looped(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Fused experts that call a module without weights once for each expert that a row chose.

    ZeRO-3 notes the order of all modules, those without weights too, and gathers ahead as long as
    it is kept. So ranks whose rows choose another number of experts gather at other places. As
    DeepSpeed's leaf modules, fused experts are noted as one module. Read in DeepSpeed 0.19.8 and
    transformers 5.19 (``experts_implementation="eager"``).
    """
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        fused = any(len(getattr(weight, "ds_shape", weight.shape)) == 3 for weight in own)
        if not fused or getattr(module, _LEAF, False):
            continue
        calls_bare = any(module.children()) and len(list(module.parameters())) == len(own)
        way = getattr(getattr(module, "config", None), "_experts_implementation", None)
        if calls_bare and way in (None, "eager"):
            yield module


def make_leaf(module: torch.nn.Module) -> Callable[[], None]:
    """Have DeepSpeed take ``module`` for one, when it wraps the model. The answer undoes that, and
    does not hold the module."""
    setattr(module, _LEAF, True)
    held = weakref.ref(module)

    def undo() -> None:
        there = held()
        if there is not None:
            vars(there).pop(_LEAF, None)

    return undo
