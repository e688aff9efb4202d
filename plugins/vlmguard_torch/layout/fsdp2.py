"""What FSDP2 keeps of a model's parameters. Its names are private: read only where a fault is
contained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def of_module(module: Any) -> Iterator[Any]:
    """FSDP2's own objects for the parameters that ``module`` gathers itself."""
    yield from _of_state(module._get_fsdp_state())


def by_parameter(model: Any) -> dict[int, Any]:
    """Identity of a parameter, split or whole → FSDP2's own object for it. Empty without FSDP2."""
    state = _any_state(model)
    found: dict[int, Any] = {}
    for each in () if state is None else state._state_ctx.all_states:
        for held in _of_state(each):
            found[id(held.sharded_param)] = held
            for name in ("_unsharded_param", "_sharded_post_forward_param"):
                other = getattr(held, name, None)
                if other is not None:
                    found[id(other)] = held
    return found


def is_last_backward(model: Any) -> bool:
    """Whether a backward now ends with all gradients reduced: not where the program has said
    ``set_is_last_backward(False)``, and waits for them later."""
    state = _any_state(model)
    return state is None or bool(getattr(state._state_ctx, "is_last_backward", True))


def not_reduced(held: Any) -> bool:
    """Whether a backward under accumulation has left a gradient of the whole parameter, which none
    has reduced yet. ``held`` is FSDP2's object for the parameter."""
    whole = getattr(held, "_unsharded_param", None)
    return held.unsharded_accumulated_grad is not None or getattr(whole, "grad", None) is not None


def _any_state(model: Any) -> Any:
    states = (m._get_fsdp_state() for m in model.modules() if hasattr(m, "_get_fsdp_state"))
    return next(states, None)


def _of_state(state: Any) -> Iterator[Any]:
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        groups = [state._fsdp_param_group]
    for group in groups:
        if group is not None:
            yield from group.fsdp_params
