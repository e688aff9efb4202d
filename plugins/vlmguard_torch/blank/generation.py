"""``generate``: from transformers 5.2x on it runs the towers before the first forward."""

from __future__ import annotations

import copy
import functools
import operator
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from vlmguard.runtime.faults import contain
from vlmguard_torch import module_calls

_ENCODES = "_prepare_multimodal_encoder_kwargs_for_generation"
ENCODED = ("image", "video")
"""The kinds of input that it runs towers for; an audio's runs in the first forward."""
_blanks: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""Model → weak reference to its `Blank`, which the model's hooks keep alive."""


class Generating:
    """How far a ``generate`` has come."""

    def __init__(self) -> None:
        self.depth = 0
        self.encoded: frozenset[str] = frozenset()  # kinds whose towers `generate` has run
        self.encoding = False  # whether its encoders run, before its first forward
        self.unfinished: dict[str, list[torch.Tensor]] = {}  # kind → blank features, encoded only
        self.forwards = 0
        self.device: torch.device | None = None  # the device of its inputs
        self.told = False  # whether it was said that ranks may wait for each other

    def forward_ended(self) -> None:
        """A forward of the model is over."""
        self.forwards += bool(self.depth)

    def to_finish(self) -> tuple[str, ...]:
        """Kinds whose encoded features every forward has to finish: Llama 4 hands them to each
        forward of a ``generate``, and its forward calls the projector."""
        return () if self.encoding else tuple(self.unfinished)

    def may_blank(self, cache: Any) -> bool:
        """Whether a forward now may be one in which other ranks run towers: not while decoding."""
        if self.depth:
            return not self.forwards or cache is None
        return not _filled(cache)


def _filled(cache: Any) -> bool:
    length = getattr(cache, "get_seq_length", None)
    if cache is None or length is None:
        return bool(cache)
    return bool(length())


def wrap(models: tuple[Any, ...], blank: Any) -> Callable[[], None]:
    """Watch ``generate`` of those ``models`` that have it, their class's or one of their own
    (ms-swift, LLaMA-Factory and PEFT put one on the model); returns what undoes it.

    Bound to the model, so that a copy of the model gets its own, which does nothing of ours.
    """
    undo = []
    for model in models:
        if not callable(getattr(model, "generate", None)):
            continue
        _blanks[model] = weakref.ref(blank)
        undo.append(functools.partial(_blanks.pop, model, None))
        undo.append(_put(model, "generate", generate))
        if hasattr(model, _ENCODES):
            undo.append(_put(model, _ENCODES, _encode))

    def take_off() -> None:
        for each in undo:
            each()

    return take_off


def _put(model: Any, name: str, watched: Callable[..., Any]) -> Callable[[], None]:
    """Have ``watched`` called in place of a method; returns what puts back what stood there."""
    before = vars(model).get(name)
    if before is None or getattr(before, "__self__", None) is model:
        own = getattr(before, "__func__", None)
        placed: Any = types.MethodType(_method(type(model), name, own, watched), model)
    else:
        placed = _Function(before, watched, weakref.ref(model))
    setattr(model, name, placed)
    held = weakref.ref(model)

    def undo() -> None:
        model = held()
        if model is None or vars(model).get(name) is not placed:
            return  # another function wraps it now, and still calls the model's own
        del vars(model)[name]
        if before is not None:
            setattr(model, name, before)

    return undo


def _method(kind: type, name: str, own: Any, watched: Callable[..., Any]) -> Any:
    """A function that is to be bound to a model, or to a copy of it; ``own`` None: the class's."""

    @functools.wraps(own or getattr(kind, name))
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = types.MethodType(own or getattr(type(self), name), self)
        return watched(call, self, args, kwargs)

    method.__name__ = name  # a bound method is pickled by its function's name
    return method


class _Function:
    """Stands for a function on a model that is bound to nothing; pickles as it."""

    def __init__(self, own: Any, watched: Callable[..., Any], model: weakref.ref[Any]) -> None:
        functools.update_wrapper(self, own)
        self._parts = own, watched, model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own, watched, model = self._parts
        return watched(own, model(), args, kwargs)

    def __reduce__(self) -> Any:
        return operator.getitem, ((self._parts[0],), 0)

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(self._parts[0], memo)


def _of(model: Any) -> Any:
    held = _blanks.get(model) if model is not None else None
    return held() if held is not None else None


def generate(own: Any, model: Any, args: Any, kwargs: Any) -> Any:
    """The model's own, watched."""
    state = contain("watching generate()", _begin, model, args, kwargs)
    if not isinstance(state, Generating):
        return own(*args, **kwargs)
    state.depth += 1
    try:
        return own(*args, **kwargs)
    finally:
        state.depth -= 1
        if not state.depth:
            state.encoded, state.unfinished = frozenset(), {}


def _begin(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generating | None:
    """The outermost of several that call each other begins anew; None without a blank."""
    blank = _of(model)
    if blank is None:
        return None
    state: Generating = blank.generating
    if not state.depth:
        state.encoded, state.unfinished, state.forwards = frozenset(), {}, 0
        state.device = module_calls.device((*args, kwargs))
        _look(model, kwargs, blank)
    return state


def _encode(own: Any, model: Any, args: Any, kwargs: Any) -> Any:
    """The model's own encoding before the first forward; what it did not run, runs behind it."""
    told = own(*args, **kwargs)
    contain("encoding a blank input", _encoded, model)
    return told


def _encoded(model: Any) -> None:
    blank = _of(model)
    if blank is not None:
        blank.encode(blank.generating.device)


def _look(model: Any, kwargs: dict[str, Any], blank: Any) -> None:
    """A rank that is done before others leaves them waiting for its parameters."""
    dist = torch.distributed
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return
    state = blank.generating
    if state.told or blank.when == "training" or _synced(model, kwargs):
        return
    if _partitioned(model):
        state.told = True
        blank.say(
            "vlmguard: generate() on partitioned parameters without synced_gpus=True: ranks that"
            " end earlier leave the others waiting. Set it, or gather the parameters before."
        )


def _synced(model: Any, kwargs: dict[str, Any]) -> bool:
    """transformers' own choice where nothing is told: only what it partitioned itself."""
    told = kwargs.get("synced_gpus")
    if told is not None:
        return bool(told)
    deepspeed = sys.modules.get("transformers.integrations.deepspeed")
    enabled = getattr(deepspeed, "is_deepspeed_zero3_enabled", lambda: False)()
    return enabled or bool(getattr(model, "_is_fsdp_managed_module", False))


def _partitioned(model: Any) -> bool:
    """Whether this rank lacks a part of the first parameter, under ZeRO-3 or FSDP2, now."""
    parameter = next(model.parameters(), None)
    status = getattr(getattr(parameter, "ds_status", None), "name", "")
    return status == "NOT_AVAILABLE" or hasattr(parameter, "placements")
