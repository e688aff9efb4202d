"""Upsets one function of the guard in a rank, whoever holds it: its code is replaced, not its name.

`install("raises", "module:Class.function", {0, 1})` in a process whose RANK is one of those. Each
is written down in the file VLMGUARD_TEST_REACHED when it is first called.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import time
import types
from collections.abc import Collection
from pathlib import Path
from typing import Any

import vlmguard_imports

ASLEEP = 2.5
"""Seconds of the first call that sleeps: longer than the ranks wait for each other."""
WRONG = {
    "a word": "odd",
    "a number": 17,
    "nothing": None,
    "a list": ["odd"],
    "an object": object(),
}
MADE = "made to fail by the tests"
_upset: list[tuple[str, str, types.FunctionType, types.FunctionType]] = []
_reached: set[str] = set()


class Closed(Exception):
    """A function whose code cannot be replaced: it closes over names."""


def install(kind: str, target: str, ranks: Collection[int]) -> None:
    """kind: "raises", "sleeps", or a key of `WRONG` to be returned."""
    if int(os.environ["RANK"]) not in ranks:
        return
    name = target.partition(":")[0]
    change = functools.partial(_change, kind, target)
    if name in sys.modules:
        change(sys.modules[name])
    else:
        vlmguard_imports.after(name, change)


def _change(kind: str, target: str, module: types.ModuleType) -> None:
    function = _function(module, target.partition(":")[2])
    kept = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    kept.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(function)
    _upset.append((kind, target, kept, function))
    call = f"u.called({len(_upset) - 1}, a, k)"
    source = f"def upset(*a, **k):\n import {__name__} as u\n return {call}"
    made: dict[str, Any] = {}
    exec(source, made)
    function.__code__ = made["upset"].__code__
    function.__defaults__ = function.__kwdefaults__ = None
    function.__signature__ = signature  # plug-ins are called by it


def undo() -> None:
    """Everything as it was; for a process that goes on."""
    for _, _, kept, function in _upset:
        function.__code__, function.__defaults__ = kept.__code__, kept.__defaults__
        function.__kwdefaults__ = kept.__kwdefaults__
        function.__dict__.pop("__signature__", None)
    _upset.clear()
    _reached.clear()


def _function(module: types.ModuleType, name: str) -> types.FunctionType:
    *parents, last = name.split(".")
    kept = vars(functools.reduce(getattr, parents, module))[last]
    for inner in ("__func__", "fget", "func"):  # static and class methods, properties
        kept = getattr(kept, inner, None) or kept
    kept = inspect.unwrap(kept)
    if not isinstance(kept, types.FunctionType) or kept.__code__.co_freevars:
        raise Closed(f"{module.__name__}:{name}")
    return kept


def called(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Instead of the function."""
    kind, target, kept, _ = _upset[number]
    first = target not in _reached
    _reached.add(target)
    if first:
        _note(os.environ["VLMGUARD_TEST_REACHED"], f"{target}\n")
    if kind == "raises":
        raise RuntimeError(MADE)
    if kind == "sleeps":
        if first:
            time.sleep(ASLEEP)
        return kept(*args, **kwargs)
    return WRONG[kind]


def watch(root: Path, file: str) -> None:
    """Write down each function below ``root`` that this process calls, as module:Class.function."""
    prefix, seen = f"{root}/", set()

    def profile(frame: types.FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in seen or not code.co_flags & inspect.CO_OPTIMIZED:
            return  # the body of a class is called, too
        if not code.co_filename.startswith(prefix):
            return
        seen.add(code)
        path = code.co_filename[len(prefix) :].removeprefix("plugins/").removesuffix(".py")
        module = path.replace("/", ".").removesuffix(".__init__")
        if module.startswith("vlmguard"):
            _note(file, f"{module}:{code.co_qualname}\n")

    threading.setprofile(profile)
    sys.setprofile(profile)


def _note(file: str, text: str) -> None:
    """By the system's own calls: nothing of Python's is to be upset here."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, text.encode())
    os.close(handle)
