"""The function that stands in a wrapped place: standard library only, and a plain function.

Plain, since bound methods of it pickle, copy and deep-copy like any other: ms-swift hands
``partial(template.data_collator)`` to spawned dataloader workers. One place has one stub, whoever
hooks it; each hook can be taken out again in any order.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vlmguard.runtime.seams import Seam

_OFF = {"off", "0", "false", "no"}
_LOOKED_AT = 200  # functions to search at most for one that still calls a stub


def is_off() -> bool:
    """Whether ``VLMGUARD`` switches the guard off. Read anew each time: notebooks change it."""
    value = os.environ.get("VLMGUARD")
    return value is not None and value.strip().lower() in _OFF


class Hook:
    """One seam on one place. Its wrapper is imported at its first call."""

    def __init__(self, seam: Seam) -> None:
        self.seam = seam
        self.wrapper = None if isinstance(seam.wrapper, str) else seam.wrapper
        self.broken = False

    def on(self) -> bool:
        """Whether this call goes through the wrapper."""
        if self.broken or (is_off() and not self.seam.when_off):
            return False
        return self.wrapper is not None or self._load()

    def _load(self) -> bool:
        try:
            self.wrapper = _named(str(self.seam.wrapper))
        except Exception as error:
            self.broken = True
            _fault(f"loading {self.seam.wrapper}", error)
        return not self.broken

    def call(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        assert callable(self.wrapper)
        return self.wrapper(wrapped, instance, args, kwargs)


def _named(target: str) -> Any:
    """The function that ``"module:function"`` names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _fault(what: str, error: Exception) -> None:
    try:
        from vlmguard.runtime.faults import fault

        fault(what, error)
    except Exception:
        from vlmguard.runtime import stderr

        stderr.say(f"{what} failed: {error!r}; going on without it")


class Place:
    """A function or method that is wrapped.

    Attributes:
        owner: the class or module that holds it.
        original: what stood there, as it stood in the owner's ``__dict__``.
        hooks: who hooks it, the innermost first.
        rests: whether calls go straight to the original.
        under: what stood there when the stub was last called: the stub, or who calls it.
    """

    def __init__(self, owner: Any, name: str, original: Any) -> None:
        self.owner, self.name, self.original = owner, name, original
        self.hooks: tuple[Hook, ...] = ()
        self.rests = False
        self.under: Any = None
        self.stub = _stub(self)

    def present(self) -> Any:
        """What stands there now; None if nothing does."""
        return vars(self.owner).get(self.name)

    def put(self) -> None:
        setattr(self.owner, self.name, self.stub)

    def restore(self) -> None:
        """Put the original back, unless somebody has wrapped the stub: then it stays, empty."""
        if self.present() is self.stub:
            setattr(self.owner, self.name, self.original)

    def held(self) -> bool:
        """Whether the stub stands there, or what stands there has it in hand."""
        present = self.present()
        return present is not None and holds(present, _function(self.stub))

    def reached(self) -> bool:
        """Whether a call still comes here: `held`, or one was seen to come."""
        return self.held() or (self.under is not None and self.present() is self.under)

    def rest(self) -> None:
        """Let calls go straight to the original, if all hooks are of seams that may rest."""
        self.rests = bool(self.hooks) and all(hook.seam.rests for hook in self.hooks)

    def failed(self, instance: Any, error: Exception) -> None:
        """A call raised while the hooks rested: seams that explain errors hear of it."""
        for hook in self.hooks:
            if hook.seam.failed and hook.on():
                try:
                    _named(hook.seam.failed)(instance, error)
                except Exception as own:
                    _fault(f"calling {hook.seam.failed}", own)

    def through(self, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        """Call ``wrapped`` through all hooks that are on."""
        self.under = self.present()
        outer = None
        for hook in self.hooks:
            if not hook.on():
                continue
            if outer is not None:
                wrapped = _inner(outer, wrapped, instance)
            outer = hook
        if outer is None:
            return wrapped(*args, **kwargs)
        return outer.call(wrapped, instance, args, kwargs)


def _inner(hook: Hook, wrapped: Any, instance: Any) -> Callable[..., Any]:
    def inner(*args: Any, **kwargs: Any) -> Any:
        return hook.call(wrapped, instance, args, kwargs)

    inner.__wrapped__ = wrapped  # type: ignore[attr-defined]
    return inner


def _stub(place: Place) -> Any:
    """A stand-in of the original's own kind: function, method, classmethod or staticmethod."""
    original = place.original
    if isinstance(original, classmethod):
        return classmethod(_method(place, original.__func__))
    if isinstance(original, staticmethod):
        return staticmethod(_plain(place, original.__func__))
    if isinstance(place.owner, ModuleType):
        return _plain(place, original)
    if hasattr(type(original), "__get__"):
        return _method(place, original)
    return staticmethod(_plain(place, original))


def _method(place: Place, original: Any) -> Any:
    @functools.wraps(original)
    def stub(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if place.rests:
            try:
                return original.__get__(self)(*args, **kwargs)
            except Exception as error:
                place.failed(self, error)
                raise
        try:
            return place.through(original.__get__(self), self, args, kwargs)
        except Exception as error:
            if not stops(error):
                raise
            raise error.with_traceback(others(error.__traceback__))  # noqa: B904

    return stub


def _plain(place: Place, original: Any) -> Any:
    @functools.wraps(original)
    def stub(*args: Any, **kwargs: Any) -> Any:
        try:
            return place.through(original, None, args, kwargs)
        except Exception as error:
            if not stops(error):
                raise
            raise error.with_traceback(others(error.__traceback__))  # noqa: B904

    return stub


def stops(error: Exception) -> bool:
    """Whether it is a `Stop` whose traceback is to be without frames of ours."""
    from vlmguard.core.errors import Stop

    shown = os.environ.get("VLMGUARD_TRACEBACK", "").strip().lower()
    return isinstance(error, Stop) and shown in ("", *_OFF)


def others(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of our modules."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    kept = None
    for each in reversed(frames):
        if not str(each.tb_frame.f_globals.get("__name__", "")).startswith("vlmguard"):
            kept = TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return kept


def _function(value: Any) -> Any:
    """The function in a method, classmethod or staticmethod."""
    return getattr(value, "__func__", value)


def holds(value: Any, stub: Any) -> bool:
    """Whether ``value`` is the stub, or a wrapper that has it in hand.

    Looked through are ``__wrapped__``, `functools.partial`, closures, and the globals that a
    function names. That it has it does not say that it calls it; that it has not, that it cannot.
    """
    found = [_function(value)]
    for each in found:  # the list grows during the loop: the nearest come first
        if each is stub:
            return True
        if len(found) < _LOOKED_AT:
            found += [held for held in _held(each) if not any(held is seen for seen in found)]
    return False


def _held(value: Any) -> list[Any]:
    """The functions and partials that a function or partial has in hand; no other objects."""
    held = [getattr(value, name, None) for name in ("__wrapped__", "func")]
    code = getattr(value, "__code__", None)
    if code is not None:
        held += [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
        held += [value.__globals__[name] for name in code.co_names if name in value.__globals__]
    functions = map(_function, held)
    return [f for f in functions if hasattr(f, "__code__") or isinstance(f, functools.partial)]


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
