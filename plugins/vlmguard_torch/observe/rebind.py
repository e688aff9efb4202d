"""What a framework put on the user's own modules is put on their copies.

ms-swift, for one, replaces ``forward`` on the instance: ``model.forward = MethodType(new, model)``,
with the old one bound to the model in a closure. The copy is of the class and has none of it.

The copy shares nothing that can change with the original: a function gets a closure of its own
(modality dropout counts its calls there), and the lists, counters and generators in it are copied.
"""

from __future__ import annotations

import contextlib
import copy as copying
import enum
import functools
import logging
import threading
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_CALLABLE = (types.MethodType, types.FunctionType, functools.partial)
_ALIKE = (
    type(None), bool, int, float, complex, str, bytes, type, enum.Enum, types.ModuleType,
    types.CodeType, logging.Logger, torch.dtype, torch.device, torch.Size, type(...),
    type(functools.lru_cache(len)),
)  # fmt: skip
"""What may be shared: nothing changes in it."""
_CONTAINERS = (list, tuple, set, frozenset, deque)
MOST_VALUES = 20_000
"""That functions of one model may hold; LARGEST: numbers in one tensor."""
LARGEST = 1_000_000


class NotRebound(ValueError):
    """A replaced function holds a module of the user's that the copy has no single one for, or
    what cannot be copied."""


def carry_over(
    model: torch.nn.Module, copy: torch.nn.Module, found: Mapping[str, tuple[str, ...]]
) -> None:
    """Give the copy's modules the functions that stand on the user's, bound to the copy.

    Not those of modules without modules in them: a kernel in place of a norm changes no fact, and
    might not run here. Raises NotRebound rather than let one run the user's own modules, or change
    what they hold.
    """
    twins: dict[int, Any] = {}
    memo: dict[int, Any] = {}
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
        vars(twin).update({key: rebound(one, twins, memo) for key, one in functions.items()})


def rebound(value: Any, twins: Mapping[int, Any], memo: dict[int, Any]) -> Any:
    """A value with the user's modules in it exchanged for those of the copy, and all else in it
    that can change copied: what a method is bound to, what a closure holds, what a partial was
    given.

    memo: id of a value → (the value, its copy); one for all functions of a model.
    """
    if isinstance(value, torch.nn.Module):
        if id(value) in twins and twins[id(value)] is None:
            raise NotRebound(f"a function holds a {type(value).__qualname__} without a copy")
        return twins.get(id(value), value)
    if isinstance(value, _ALIKE):
        return value
    if id(value) not in memo:
        if len(memo) > MOST_VALUES:
            raise NotRebound("a function holds too much to copy")
        made = _made(value, twins, memo)
        memo.setdefault(id(value), (value, made))
    return memo[id(value)][1]


def _made(value: Any, twins: Mapping[int, Any], memo: dict[int, Any]) -> Any:
    def other(one: Any) -> Any:
        return rebound(one, twins, memo)

    if isinstance(value, types.MethodType):
        return types.MethodType(other(value.__func__), other(value.__self__))
    if isinstance(value, functools.partial):
        given, named = map(other, value.args), {k: other(v) for k, v in value.keywords.items()}
        return functools.partial(other(value.func), *given, **named)
    if isinstance(value, types.FunctionType):
        return _function(value, other, memo)
    if isinstance(value, types.CellType):
        return _cell(value, other, memo)
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if type(value) in _CONTAINERS:
        return type(value)(map(other, value))
    if type(value) is dict:
        return {key: other(one) for key, one in value.items()}
    if isinstance(value, types.BuiltinFunctionType | types.BuiltinMethodType):
        return _builtin(value)
    return _object(value, other, memo)


def _function(value: types.FunctionType, other: Any, memo: dict[int, Any]) -> Any:
    """The same code with a closure of its own; known before it is filled, for one that holds
    itself."""
    if not (value.__closure__ or value.__defaults__ or value.__kwdefaults__ or vars(value)):
        return value
    cells = tuple(map(other, value.__closure__ or ()))
    if id(value) in memo:  # its own closure led to it already
        return memo[id(value)][1]
    new = types.FunctionType(
        value.__code__, value.__globals__, value.__name__, value.__defaults__, cells
    )
    memo[id(value)] = value, new
    new.__defaults__ = other(value.__defaults__)
    new.__kwdefaults__ = other(value.__kwdefaults__)
    new.__dict__.update({k: other(v) for k, v in vars(value).items()})  # __wrapped__: the signature
    return new


def _cell(value: Any, other: Any, memo: dict[int, Any]) -> Any:
    new = types.CellType()
    memo[id(value)] = value, new
    try:
        held = value.cell_contents
    except ValueError:  # the cell is empty
        return new
    new.cell_contents = other(held)
    return new


def _tensor(value: torch.Tensor) -> torch.Tensor:
    if value.numel() > LARGEST or value.device.type != "cpu":
        raise NotRebound("a function holds a tensor that is too large to copy")
    return value.detach().clone().requires_grad_(value.requires_grad)


def _builtin(value: Any) -> Any:
    """A method of a list or a generator would change what it is bound to."""
    if isinstance(value.__self__, types.ModuleType | type | None):
        return value
    raise NotRebound(f"a function holds {value.__name__}() of a {type(value.__self__).__name__}")


def _object(value: Any, other: Any, memo: dict[int, Any]) -> Any:
    """Of what has attributes, a copy with copies of them; of a counter or a random generator, one
    that goes on from the same place."""
    try:
        if not getattr(value, "__dict__", None):
            return copying.deepcopy(value)
        new = copying.copy(value)
    except Exception as error:
        raise NotRebound(f"a function holds a {type(value).__name__}: {error}") from error
    if new is value:
        raise NotRebound(f"a function holds a {type(value).__name__}")
    memo[id(value)] = value, new
    vars(new).update({key: other(one) for key, one in vars(value).items()})
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
    here = threading.get_ident()  # other threads of the user's may run the model

    def refuse(module: Any, _: Any) -> None:
        if id(module) in own and threading.get_ident() == here:
            raise NotRebound("a replaced function would have run the user's own model")

    handle = torch.nn.modules.module.register_module_forward_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()
