"""What hooks need to know of a module's call, and what they leave where they are copied to."""

from __future__ import annotations

from typing import Any

import torch


def embeddings(args: Any, kwargs: Any) -> tuple[int | None, torch.Tensor | None]:
    """Where a language model's call holds embeddings: a position, or None for the keyword."""
    told = kwargs.get("inputs_embeds")
    if isinstance(told, torch.Tensor):
        return None, told
    for position, value in enumerate(args):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim == 3:
            return position, value
    return None, None


def with_embeddings(args: Any, kwargs: Any, where: int | None, value: torch.Tensor) -> Any:
    """The same call with others, as a pre-hook returns it."""
    if where is None:
        return args, {**kwargs, "inputs_embeds": value}
    return (*args[:where], value, *args[where + 1 :]), kwargs


def device(value: Any) -> torch.device | None:
    """Where the first tensor in ``value`` lies. Not a parameter's: partitioned, it may lie with the
    CPU that it is kept on."""
    if isinstance(value, torch.Tensor):
        return value.device
    if isinstance(value, dict):
        value = tuple(value.values())
    inside = value if isinstance(value, (list, tuple)) else ()
    return next((found for each in inside if (found := device(each)) is not None), None)


def in_backward() -> bool:
    """Whether this call is a recomputation: it belongs to a forward that is over."""
    return getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1


class Seen:
    """The hook that sees a tower run, and tells ``blank`` which."""

    def __init__(self, blank: Any, path: str) -> None:
        self.blank, self.path = blank, path

    def __call__(self, module: Any, args: Any) -> None:
        self.blank.seen(self.path)


class Inert:
    """What a pickled model has in our place: hooks that do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _no_hook


def _no_hook(*args: Any, **kwargs: Any) -> None:
    return None
