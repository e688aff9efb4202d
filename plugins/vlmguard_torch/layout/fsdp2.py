"""What FSDP2 keeps of a model's parameters. Its names are private: read only where a fault is
contained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def of_module(module: Any) -> Iterator[Any]:
    """FSDP2's own objects for the parameters that ``module`` gathers itself."""
    yield from _of_state(module._get_fsdp_state())


def by_parameter(model: Any) -> dict[int, Any]:
    """Identity of a parameter, split or whole → FSDP2's own object for it. Empty without FSDP2."""
    state = next(
        (m._get_fsdp_state() for m in model.modules() if hasattr(m, "_get_fsdp_state")), None
    )
    found: dict[int, Any] = {}
    for each in () if state is None else state._state_ctx.all_states:
        for held in _of_state(each):
            found[id(held.sharded_param)] = held
            whole = getattr(held, "_unsharded_param", None)
            if whole is not None:
                found[id(whole)] = held
    return found


def gradients(held: Any) -> list[torch.Tensor]:
    """What FSDP2's object for a parameter holds: of this rank's part, and of the whole parameter
    where a backward under accumulation has left one and none has reduced it yet."""
    whole = getattr(held, "_unsharded_param", None)
    found = (held.sharded_param.grad, held.unsharded_accumulated_grad, getattr(whole, "grad", None))
    return [each for each in found if each is not None]


def drop_gradients(held: Any) -> None:
    """Of what `gradients` tells: all of it."""
    held.sharded_param.grad = held.unsharded_accumulated_grad = None
    whole = getattr(held, "_unsharded_param", None)
    if whole is not None:
        whole.grad = None


def _of_state(state: Any) -> Iterator[Any]:
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        groups = [state._fsdp_param_group]
    for group in groups:
        if group is not None:
            yield from group.fsdp_params
