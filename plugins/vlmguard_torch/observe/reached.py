"""What the code of the user's own classes can reach and change: kept, and put back.

A copy of a model has weights and attributes of its own, but its class is the user's. A forward that
counts its calls in a global variable, in its class, or draws from a generator of its module would
find another number afterwards: modality dropout would drop other rows. So would a collator or a
data set that goes on from what it holds.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import itertools
import mmap
import random
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from vlmguard_torch.observe.isolated_state import random_kept

_KNOWN = frozenset((
    "PIL", "accelerate", "builtins", "datasets", "deepspeed", "functools", "liger_kernel", "numpy",
    "pandas", "peft", "pyarrow", "tokenizers", "torch", "torchvision", "tqdm", "transformers",
    "typing", "vlmguard", "vlmguard_torch", "vlmguard_transformers",
))  # fmt: skip
"""Packages whose code counts nothing."""
MOST = 5_000
"""Values that are looked at, and numbers of a tensor or an array that are kept."""
_PLAIN = (type(None), bool, int, float, str, bytes, frozenset)
_CONTAINERS = (list, dict, set, deque, OrderedDict, defaultdict, Counter)
_SUBCLASSED = (list, dict, set, deque)
"""A user's own kind of these may decode where it is read: its content is left alone."""
_LOST = (Iterator, mmap.mmap)
NOT_KEPT = "the data set or its collator holds an iterator, a thread or a queue"
_RUNNING = frozenset(("_queue", "concurrent", "multiprocessing", "queue", "socket", "threading"))
"""Modules of what others work with at the same time."""
_HOLDERS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (types.MethodType, ("__func__", "__self__")), (staticmethod, ("__func__",)),
    (classmethod, ("__func__",)), (functools.partial, ("func", "args", "keywords")),
    (property, ("fget",)), (functools._lru_cache_wrapper, ("__wrapped__",)),
    (types.BuiltinFunctionType, ("__self__",)),
)  # fmt: skip
"""What holds something behind a name of its own."""


@contextlib.contextmanager
def kept(model: torch.nn.Module) -> Iterator[None]:
    """Global variables, class attributes, closures, lists and random generators that the forwards
    of the model's own classes name are as before afterwards. Packages as transformers are not
    looked into."""
    found = _Reached()
    for part in model.modules():
        found.classes(type(part))
        for value in vars(part).values():
            if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
                found.look(value)
    found.walk()
    with found.put_back():
        yield


@contextlib.contextmanager
def kept_objects(objects: Iterable[Any]) -> Iterator[bool]:
    """The same for objects as a collator or a data set: what they hold is as before afterwards.
    Gives whether all of it can be: an iterator, a thread or a queue cannot be taken back."""
    found = _Reached()
    for each in objects:
        found.look(each)
    found.walk()
    with found.put_back():
        yield not found.lost


@contextlib.contextmanager
def untouched(model: torch.nn.Module, objects: Iterable[Any]) -> Iterator[bool]:
    """The same, and the states of the random generators too."""
    with random_kept(model), kept_objects(objects) as can_be:
        yield can_be


class _Reached:
    """Walks from functions and objects to what they name; notes how each thing is put back.

    Attributes:
        lost: whether something was met that cannot be.
    """

    def __init__(self) -> None:
        self.restores: list[Callable[[], None]] = []
        self.lost = False
        self._seen: dict[int, Any] = {}
        self._next: deque[Any] = deque()

    @contextlib.contextmanager
    def put_back(self) -> Iterator[None]:
        """What was found is as before afterwards."""
        try:
            yield
        finally:
            for restore in reversed(self.restores):
                with contextlib.suppress(Exception):  # the others must still be put back
                    restore()

    def walk(self) -> None:
        """The nearest first: a list of many rows does not hide what stands beside it."""
        while self._next:
            try:
                self._note(self._next.popleft())
            except Exception:  # the user's class raised, or a thread changed it
                self.lost = True

    def classes(self, kind: type) -> None:
        """A class and those that it is made of."""
        for each in kind.__mro__:
            self.look(each)

    def look(self, value: Any) -> None:
        """Look at ``value`` in its turn, if it can change."""
        if id(value) in self._seen or isinstance(value, _PLAIN) or len(self._seen) > MOST:
            return
        self._seen[id(value)] = value
        self._next.append(value)

    def _note(self, value: Any) -> None:
        """How ``value`` is put back, and what can be reached from it."""
        if isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif type(value) in _CONTAINERS:
            self._container(value)
        elif isinstance(value, tuple):
            self._each(value)
        elif restore := _random(value) or _numbers(value) or _position(value):
            self.restores.append(restore)
        elif isinstance(value, _LOST) or type(value).__module__.partition(".")[0] in _RUNNING:
            self.lost = True
        elif not isinstance(value, torch.nn.Module | torch.Tensor | types.ModuleType):
            self._object(value)

    def _class(self, kind: type) -> None:
        if _known(kind):
            return
        own = {key: one for key, one in vars(kind).items() if not key.startswith("__")}
        self.restores.append(functools.partial(_reset_class, kind, own))
        self._each(vars(kind).values())

    def _function(self, function: types.FunctionType) -> None:
        if _known(function):
            return
        self._names(function, list(_names(function.__code__)))
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # the cell is empty
                before = cell.cell_contents
                self.restores.append(functools.partial(setattr, cell, "cell_contents", before))
                self.look(before)
        self._container(vars(function))

    def _names(self, function: types.FunctionType, names: list[str]) -> None:
        space = function.__globals__
        for name in names:
            if name not in space:
                continue
            before = space[name]
            if isinstance(before, itertools.count):
                again = functools.partial(space.__setitem__, name, copy.copy(before))
            else:
                again = functools.partial(space.__setitem__, name, before)
                self.look(before)
            self.restores.append(again)

    def _container(self, value: Any) -> None:
        before = dict(value) if isinstance(value, dict) else list(value)
        self.restores.append(functools.partial(_refill, value, before))
        self._each(before.values() if isinstance(before, dict) else before)

    def _each(self, values: Iterable[Any]) -> None:
        for one in itertools.islice(values, MOST):
            self.look(one)

    def _object(self, value: Any) -> None:
        """Methods are bound to something, partials hold something, objects have attributes."""
        for kind, names in _HOLDERS:
            if isinstance(value, kind):
                self._each([getattr(value, name) for name in names])
        known = _known(type(value))
        if not known:
            self.classes(type(value))
            own = getattr(type(value), "__slots__", None) or isinstance(value, _SUBCLASSED)
            self.lost |= bool(own) and not _installed(type(value))
        if not known or isinstance(value, torch.utils.data.Dataset):  # torch's hold the user's
            with contextlib.suppress(AttributeError):
                self._container(object.__getattribute__(value, "__dict__"))  # no user's code runs


def _known(value: Any) -> bool:
    """Whether a class or function is of a package that is not looked into. A wrapper has the
    name of what it wraps, but variables of its own."""
    space = getattr(value, "__globals__", None)
    name = space.get("__name__") if isinstance(space, dict) else None  # of a class: a descriptor
    root = str(name or getattr(value, "__module__", "")).partition(".")[0]
    return root in _KNOWN or root in sys.stdlib_module_names - {"__main__"}


def _installed(kind: type) -> bool:
    """Whether a class is of an installed package, and not of a user's own code."""
    module = sys.modules.get(kind.__module__.partition(".")[0])
    places = str(getattr(module, "__file__", None) or list(getattr(module, "__path__", ())))
    return "site-packages" in places or "dist-packages" in places


def _names(code: types.CodeType) -> Iterator[str]:
    """All names in a function and the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _random(value: Any) -> Callable[[], None] | None:
    """What puts a random generator back."""
    if isinstance(value, random.Random):
        return functools.partial(value.setstate, value.getstate())
    if isinstance(value, torch.Generator):
        return functools.partial(value.set_state, value.get_state())
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None and isinstance(value, numpy.RandomState):
        return functools.partial(value.set_state, value.get_state())
    if numpy is not None and isinstance(value, numpy.Generator):
        return functools.partial(setattr, value.bit_generator, "state", value.bit_generator.state)
    return None


def _position(value: Any) -> Callable[[], None] | None:
    """What puts an open file back where it is read from."""
    if not isinstance(value, io.IOBase):
        return None
    if value.closed or not value.readable() or value.writable():
        return int  # does nothing: what was written stays
    return functools.partial(value.seek, value.tell())  # a pipe raises, and counts as lost


def _numbers(value: Any) -> Callable[[], None] | None:
    """What puts the numbers of a small tensor or array back, if they differ."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray:
        kept = value.size <= MOST and value.dtype != object and value.flags.writeable
        return functools.partial(_recopy, value, value.copy(), numpy.array_equal) if kept else None
    if type(value) is not torch.Tensor or not value.is_leaf or value.numel() > MOST:
        return None
    if value.device.type != "cpu" or value.layout is not torch.strided:
        return None
    return functools.partial(_recopy, value, value.detach().clone(), torch.equal)


def _recopy(value: Any, before: Any, equal: Callable[[Any, Any], bool]) -> None:
    if not equal(value, before):
        with torch.no_grad():
            value[...] = before


def _refill(value: Any, before: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key in value if key not in before]:
            del value[key]
        for key, one in before.items():
            if key not in value or value[key] is not one:
                value[key] = one
        if all(map(_is, value, before)):  # their order counts, too
            return
    elif len(value) == len(before) and all(map(_is, list(value), before)):
        return
    value.clear()
    (value.extend if hasattr(value, "extend") else value.update)(before)


def _is(one: Any, other: Any) -> bool:
    return one is other


def _reset_class(kind: type, before: dict[str, Any]) -> None:
    for name in [n for n in vars(kind) if not n.startswith("__") and n not in before]:
        delattr(kind, name)
    for name, value in before.items():
        if vars(kind).get(name, kind) is not value:
            setattr(kind, name, value)
