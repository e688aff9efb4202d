"""What a framework put on the user's own modules is put on their copies.

ms-swift, for one, replaces ``forward`` on the instance: ``model.forward = MethodType(new, model)``,
with the old one bound to the model in a closure. The copy is of the class and has none of it.
"""

from __future__ import annotations

import contextlib
import copy as shallow
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_CALLABLE = (types.MethodType, types.FunctionType, functools.partial)


class NotRebound(ValueError):
    """A replaced function holds a module of the user's that the copy has no single one for."""


def carry_over(
    model: torch.nn.Module, copy: torch.nn.Module, found: Mapping[str, tuple[str, ...]]
) -> None:
    """Give the copy's modules the functions that stand on the user's, bound to the copy.

    Not those of modules without modules in them: a kernel in place of a norm changes no fact, and
    might not run here. Raises NotRebound rather than let one run the user's own modules.
    """
    twins: dict[int, Any] = {}
    for path, part in model.named_modules():
        stands = found.get(path, ())
        twins[id(part)] = copy.get_submodule(stands[0]) if len(stands) == 1 else None
    for part in list(model.modules()):
        functions = {
            key: one
            for key, one in vars(part).items()
            if isinstance(one, _CALLABLE) or (key == "forward" and _calls_on(one))
        }
        twin = twins[id(part)]
        if not functions or not any(True for _ in part.children()):
            continue
        if twin is None:
            raise NotRebound(f"{type(part).__qualname__} has functions of its own, its copy none")
        vars(twin).update({key: rebound(one, twins, {}) for key, one in functions.items()})


def rebound(value: Any, twins: Mapping[int, Any], memo: dict[int, Any]) -> Any:
    """A value with the user's modules in it exchanged for those of the copy: in what a method is
    bound to, what a closure holds, what a partial was given."""
    if isinstance(value, torch.nn.Module):
        if id(value) in twins and twins[id(value)] is None:
            raise NotRebound(f"a function holds a {type(value).__qualname__} without a copy")
        return twins.get(id(value), value)
    if not isinstance(value, _CALLABLE) and not _calls_on(value):
        return value
    if id(value) not in memo:
        memo[id(value)] = value  # a function that holds itself
        memo[id(value)] = _function(value, twins, memo)
    return memo[id(value)]


def _function(value: Any, twins: Mapping[int, Any], memo: dict[int, Any]) -> Any:
    if isinstance(value, types.MethodType):
        return types.MethodType(
            rebound(value.__func__, twins, memo), rebound(value.__self__, twins, memo)
        )
    if isinstance(value, functools.partial):
        given = [rebound(one, twins, memo) for one in value.args]
        named = {key: rebound(one, twins, memo) for key, one in value.keywords.items()}
        return functools.partial(rebound(value.func, twins, memo), *given, **named)
    if not isinstance(value, types.FunctionType):
        new = shallow.copy(value)
        vars(new).update({key: rebound(one, twins, memo) for key, one in vars(value).items()})
        return new
    cells = tuple(_cell(cell, twins, memo) for cell in value.__closure__ or ())
    if all(new is old for new, old in zip(cells, value.__closure__ or (), strict=True)):
        return value
    new = types.FunctionType(
        value.__code__, value.__globals__, value.__name__, value.__defaults__, cells
    )
    new.__kwdefaults__ = value.__kwdefaults__
    new.__dict__.update(value.__dict__)  # __wrapped__ tells its signature
    return new


def _calls_on(value: Any) -> bool:
    """Whether it is an object to be called that holds what it calls, as accelerate's are."""
    inside = getattr(value, "__dict__", {}).values()
    if isinstance(value, type) or not callable(value):
        return False
    return any(isinstance(one, (torch.nn.Module, *_CALLABLE)) for one in inside)


@contextlib.contextmanager
def idle(model: torch.nn.Module, copy: torch.nn.Module) -> Iterator[None]:
    """While the copy runs, the user's own modules must not: whatever would, is stopped by
    NotRebound before it comes to a weight. What both hold, as transformers' activations that exist
    once in the process, may."""
    own = {id(part) for part in model.modules()} - {id(part) for part in copy.modules()}

    def refuse(module: Any, _: Any) -> None:
        if id(module) in own:
            raise NotRebound("a replaced function would have run the user's own model")

    handle = torch.nn.modules.module.register_module_forward_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


def _cell(cell: Any, twins: Mapping[int, Any], memo: dict[int, Any]) -> Any:
    try:
        held = cell.cell_contents
    except ValueError:  # not yet filled
        return cell
    new = rebound(held, twins, memo)
    return cell if new is held else types.CellType(new)
