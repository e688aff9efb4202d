"""Seams: the places where a framework's own function is wrapped.

An adapter lists them as data; `attach`, `detach` and ``vlmguard doctor`` read the same list. A seam
is attached when its module is imported, never before. The wrapped call is the framework's; each
wrapper makes it exactly once, outside our containment.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import wrapt

Wrapper = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
Where = Literal["attached", "waiting", "missing"]


class _Bound(wrapt.BoundFunctionWrapper):  # type: ignore[type-arg]
    """A bound method that pickles, copies and deep-copies as the plain one does.

    Stock wrapt raises; ms-swift hands ``partial(template.data_collator)`` to spawned workers.
    """

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        owner = self._self_instance
        if owner is None:  # reached through the class
            return _named, (self.__module__, self.__qualname__)
        return getattr, (owner, self.__name__)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy

        function, args = self.__reduce_ex__(2)
        return function(*copy.deepcopy(args, memo))


class SeamWrapper(wrapt.FunctionWrapper):  # type: ignore[type-arg]
    """wrapt's wrapper, with bound methods that pickle. ``seam`` says whose it is."""

    __bound_function_wrapper__ = _Bound

    def __init__(self, wrapped: Any, wrapper: Wrapper, enabled: Callable[[], bool]) -> None:
        super().__init__(wrapped, wrapper, enabled=enabled)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return _named, (self.__module__, self.__qualname__)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


def _named(module: str, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


@dataclass(frozen=True)
class Seam:
    """One place in a framework.

    Attributes:
        name: short and unique within the adapter.
        targets: ``module:Class.attribute``, one for each layout the framework had. The first one
            that a release has is *the* seam; others are ignored.
        wrapper: wrapt's signature ``(wrapped, instance, args, kwargs)``.
        why: what it is there for, shown by ``doctor``.
        when_off: keep it when ``VLMGUARD=off`` (our command-line flags must be taken out then too).
        optional: its absence costs nothing worth a finding (a feature that this release lacks).
    """

    name: str
    targets: tuple[str, ...]
    wrapper: Wrapper
    why: str
    when_off: bool = False
    optional: bool = False


class _Attached:
    """What one attached seam needs to be taken off again."""

    def __init__(self, seam: Seam, target: str, owner: Any, name: str, original: Any) -> None:
        self.seam, self.target, self.owner, self.name = seam, target, owner, name
        self.original = original
        self.live = True

    def enabled(self) -> bool:
        from vlmguard.runtime.arming import is_off

        return self.live and (self.seam.when_off or not is_off())


_attached: list[_Attached] = []
_looked: set[str] = set()  # targets whose module came in, whether or not it held them
_hooked: set[str] = set()


def attach(seams: Iterable[Seam]) -> None:
    """Wrap each seam's target when its module is imported (now, if it already is)."""
    for seam in seams:
        for target in seam.targets:
            if target in _hooked:
                continue
            _hooked.add(target)
            module = target.partition(":")[0]
            wrapt.register_post_import_hook(_contained_wrap(seam, target), module)


def _contained_wrap(seam: Seam, target: str) -> Callable[[Any], None]:
    def imported(module: Any) -> None:
        try:  # an exception here would break the host's own import
            _wrap(seam, target, module)
        except Exception as error:
            sys.stderr.write(f"vlmguard: seam {seam.name} ({target}): {error}; left alone\n")

    return imported


def _wrap(seam: Seam, target: str, module: Any) -> None:
    _looked.add(target)
    if any(
        found.live and found.seam.name == seam.name and found.seam.wrapper is seam.wrapper
        for found in _attached
    ):
        return
    *parents, name = target.partition(":")[2].split(".")
    owner = module
    for part in parents:
        owner = getattr(owner, part, None)
    original = vars(owner).get(name) if owner is not None else None
    if original is None:
        return
    found = _Attached(seam, target, owner, name, original)
    setattr(owner, name, SeamWrapper(original, seam.wrapper, found.enabled))
    _attached.append(found)


def detach(seams: Iterable[Seam]) -> None:
    """Take the seams off. Aliases made by ``from x import f`` stay, switched off."""
    wanted = {(seam.name, seam.wrapper) for seam in seams}
    for found in [a for a in _attached if (a.seam.name, a.seam.wrapper) in wanted]:
        found.live = False
        _attached.remove(found)
        if isinstance(vars(found.owner).get(found.name), SeamWrapper):
            setattr(found.owner, found.name, found.original)
        _hooked.discard(found.target)


def where(seam: Seam) -> tuple[Where, str]:
    """Whether the seam is attached, waits for an import, or is missing; and at which target."""
    for found in _attached:
        if found.live and found.seam.name == seam.name and found.seam.wrapper is seam.wrapper:
            return "attached", found.target
    waiting = [target for target in seam.targets if target not in _looked and _there(target)]
    return ("waiting", waiting[0]) if waiting else ("missing", "")


def missing(seams: Iterable[Seam]) -> tuple[str, ...]:
    """Names of the seams that this release of the framework does not have."""
    return tuple(s.name for s in seams if not s.optional and where(s)[0] == "missing")


@functools.cache
def _there(target: str) -> bool:
    """Whether the installed release holds the target, read from its source: nothing is imported
    but what find_spec needs for the top-level package, which is nothing."""
    module, _, path = target.partition(":")
    top, *rest = module.split(".")
    spec = PathFinder.find_spec(top)
    if spec is None:
        return False
    if not rest and spec.origin and spec.origin.endswith(".py"):
        return defines(Path(spec.origin).read_text("utf-8"), path)
    for folder in spec.submodule_search_locations or ():
        for source in (Path(folder, *rest, "__init__.py"), Path(folder, *rest).with_suffix(".py")):
            if source.is_file():
                return defines(source.read_text("utf-8"), path)
    return False


def defines(source: str, path: str) -> bool:
    """Whether a module's source defines ``Class.attribute``. Raises SyntaxError."""
    return _defines(ast.parse(source), path.split("."))


def _defines(tree: ast.AST, path: list[str]) -> bool:
    """Whether nested classes and functions of these names are defined, one in the other."""
    name, *inner = path
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return not inner or _defines(node, inner)
    return False
