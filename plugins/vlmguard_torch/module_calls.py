"""Calls of modules: hooks that only look, what hooks need to know of a call, and what they leave
where they are copied to."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from vlmguard.core.errors import Stop
from vlmguard.runtime.faults import contain

try:
    from torch.compiler import is_dynamo_compiling as is_compiling
except ImportError:  # before torch 2.3

    def is_compiling() -> bool:
        """Whether a model is being traced now."""
        return False


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


def is_compiled(module: Any) -> bool:
    """Whether `torch.compile` made this module, or its call."""
    if type(module).__name__ == "OptimizedModule":
        return True
    return getattr(module, "_compiled_call_impl", None) is not None


def in_backward() -> bool:
    """Whether this call is a recomputation: it belongs to a forward that is over."""
    return backward() != -1


def backward() -> int:
    """The number of the backward that runs now; -1 for none."""
    return int(getattr(torch._C, "_current_graph_task_id", lambda: -1)())


def sure(value: Any) -> bool:
    """A truth value, and nothing that merely counts as one: it decides what a rank runs."""
    if value is not True and value is not False:
        raise TypeError(f"{type(value).__name__}, not a truth value")
    return value


@dataclass(frozen=True, slots=True)
class Did:
    """What a hook of ours answers: it came to its end, with this for the module.

    One that answers anything else has failed: to do nothing, on one rank alone, is as bad as to
    raise.
    """

    value: Any = None


class Hook:
    """What a module calls. Whatever goes wrong behind it goes to ``broke``, but a `Stop` goes on.

    A copy of the model and a pickled one get a hook that does nothing. Where a compiler traces the
    model it does nothing either, unless it is to be ``traced``: what the compiler makes of the
    model is then what it makes without us.
    """

    def __init__(
        self,
        method: Callable[..., Did],
        broke: Callable[[Exception], None],
        traced: bool = True,
    ) -> None:
        self.method, self.broke, self.traced = _untraced(method), broke, traced

    def __call__(self, *given: Any) -> Any:
        if not self.traced and is_compiling():
            return None
        try:
            did = self.method(*given)
            if type(did) is not Did:
                raise TypeError(f"{type(did).__name__}, not what a hook answers")
            return did.value
        except Stop:
            raise
        except Exception as error:
            if type(error).__name__ == "_StopRecomputationError":
                raise  # torch raises it when a checkpoint has recomputed enough
            self.broke(error)
        return None

    def __reduce__(self) -> Any:
        return NO_HOOK


def _untraced(method: Callable[..., Did]) -> Callable[..., Did]:
    """``method``, which a compiler leaves out: one graph break, and no frame of its own."""
    disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)  # there since torch 2.0
    return method if disable is None else disable(method)  # type: ignore[no-any-return]


NO_HOOK = (getattr, (contextlib.nullcontext(), "__exit__"))
"""What a hook of ours is in a copied or pickled model: a function that does nothing. It is Python's
own, so that the file is read where vlmguard is not installed."""


class Heard:
    """Batches that were heard, by the identity of their first tensor: one may go through several
    forwards. Holds none of them."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()

    def first(self, batch: Mapping[str, Any], phase: str = "") -> bool:
        """Whether ``batch`` is a new one, in this phase; False where it has no tensor."""
        tensor = next((each for each in batch.values() if isinstance(each, torch.Tensor)), None)
        key = id(tensor), phase
        if tensor is None or self._known.get(key) is tensor:
            return False
        self._known[key] = tensor
        return True

    def clear(self) -> None:
        """Every batch is new again."""
        self._known.clear()


Look = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], None]
Hear = Callable[[BaseException], None]


def _away(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """What a copied or pickled model's hook does."""


class Hooked:
    """What has put hooks on something."""

    _handles: list[Any]

    def close(self) -> None:
        """Take every hook off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


class ForwardHook:
    """Calls ``look(module, args, kwargs)`` before each forward of a module; its faults are ours.

    Goes with no copy of the model, and into no file of it.
    """

    what, look = "looking on", staticmethod(_away)

    def __init__(self, what: str = "looking on", look: Look = _away) -> None:
        self.what, self.look = what, look

    def on(self, module: Any) -> Any:
        """Put it on; answers with the handle that takes it off."""
        return module.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: Any = None) -> None:
        # torch gives no kwargs if another hook removed this one in the same forward.
        if kwargs is not None and not is_compiling():
            contain(self.what, self.look, module, args, kwargs)

    def __reduce__(self) -> Any:
        return NO_HOOK


def _unseen(module: Any, output: Any) -> None:
    """What a copied or pickled model's hook does."""


class Behind:
    """Calls ``look(module, output)`` behind each forward of a module; its faults are ours.

    In a compiled model it does nothing, and is traced as nothing.
    """

    what, look = "looking on", staticmethod(_unseen)

    def __init__(self, what: str = "looking on", look: Callable[[Any, Any], None] = _unseen):
        self.what, self.look = what, look

    def on(self, module: Any) -> Any:
        """Put it on; answers with the handle that takes it off."""
        return module.register_forward_hook(self)

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        if not is_compiling():
            contain(self.what, self.look, module, output)

    def __reduce__(self) -> Any:
        return NO_HOOK


def _unheard(error: BaseException) -> None:
    """What a copied or pickled model's witness does."""


class Witness:
    """Calls ``hear(error)`` where a module's forward raises; the error goes on unchanged."""

    what, hear = "looking on", staticmethod(_unheard)

    def __init__(self, what: str = "looking on", hear: Hear = _unheard) -> None:
        self.what, self.hear = what, hear

    def on(self, module: Any) -> Any:
        """Put it on; answers with the handle that takes it off."""
        return module.register_forward_hook(self, with_kwargs=True, always_call=True)

    def __call__(self, module: Any, args: Any, kwargs: Any, result: Any = None) -> None:
        if result is not None or is_compiling():
            return
        error = sys.exc_info()[1]  # torch calls this hook while it handles the exception
        if error is not None:
            contain(self.what, self.hear, error)

    def __reduce__(self) -> Any:
        return NO_HOOK
