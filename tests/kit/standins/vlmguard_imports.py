"""Call a function right before or right after a module is imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_before: dict[str, Callable[[], None]] = {}
_after: dict[str, Callable[[ModuleType], None]] = {}


def before(name: str, call: Callable[[], None]) -> None:
    """Call once, when `name` is about to be imported."""
    _before[name] = call
    _watch()


def after(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call once with the module, when `name` has just been executed."""
    _after[name] = call
    _watch()


class _Finder:
    """Asks the other finders for the module, so that the guard's own still sees every import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if call := _before.pop(name, None):
            call()
        if name not in _after:
            return None
        for finder in [each for each in sys.meta_path if each is not self]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _call_after_execution(spec)
                return spec
        return None


def _call_after_execution(spec: ModuleSpec) -> None:
    loader = spec.loader
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        if call := _after.pop(spec.name, None):
            call(module)

    loader.exec_module = exec_module


_finder = _Finder()


def _watch() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
