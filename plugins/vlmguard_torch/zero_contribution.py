"""Add nothing to a tensor, in a way that autograd and every ZeRO stage see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

_NOT_USED = ("hidden_state", "hidden_states", "attentions")
"""Ends of the names of fields that the language model does not read: a layer behind the feature
layer gets no gradient from a real image, and must get none from a blank one."""


def add(target: torch.Tensor, features: list[torch.Tensor]) -> torch.Tensor:
    """``target``, bit for bit, with ``features`` in its graph. The same object where none of them
    takes part in a backward.

    What is chosen everywhere is ``target``, and so its gradient; what is not gets zeros, where a
    sum times zero would be NaN if a feature is infinite. No code of ours runs in the backward.
    """
    reached = [each for each in features if each.requires_grad]
    if not reached or not torch.is_grad_enabled():
        return target
    chosen = torch.ones((), dtype=torch.bool, device=target.device)
    firsts = [each.flatten()[:1].sum().to(target.device, target.dtype) for each in reached]
    return torch.where(chosen, target, sum(firsts[1:], firsts[0]))


def used(output: Any) -> list[torch.Tensor]:
    """The floating tensors of ``get_image_features``' output that the language model reads."""
    if hasattr(output, "items") and hasattr(output, "to_tuple"):  # a transformers ModelOutput
        kept = {name: value for name, value in output.items() if not name.endswith(_NOT_USED)}
        # As an attribute too: without a field of the class it is not an item (Idefics3 in 5.6).
        kept["pooler_output"] = getattr(output, "pooler_output", None)
        return list(tensors(kept)) or list(tensors(output.get("last_hidden_state")))
    return list(tensors(output))


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The floating tensors in nested lists, tuples and mappings."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)
