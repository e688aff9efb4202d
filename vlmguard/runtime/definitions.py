"""Read a framework's source without importing it: which classes and functions it defines."""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

from vlmguard import _bootstrap


def find(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
    """Where a module lies: the first answer of this process's finders, Python's own or those that
    ``pip install -e`` leaves. Nothing is imported or armed.

    Args:
        path: the folders of its package, for a submodule.
    """
    for finder in list(sys.meta_path):
        ask = getattr(finder, "find_spec", None)
        if ask is None or finder is _bootstrap._watcher:
            continue
        try:
            spec: ModuleSpec | None = ask(name, path, None)
        except Exception:  # the import is blocked, or the finder takes other arguments
            return None
        if spec is not None:
            return spec
    return None


@functools.cache
def has(target: str) -> bool:
    """Whether the installed release defines ``module:Class.attribute``. Nothing is imported.

    A module whose source is not there (bytecode alone) is taken to define it.
    """
    module, _, path = target.partition(":")
    top, *rest = module.split(".")
    spec = find(top)
    if spec is not None and rest:
        places = [os.path.join(folder, *rest[:-1]) for folder in _folders(spec)]
        spec = find(module, places) if places else None
    if spec is None:
        return False
    source = _source(spec)
    return source is None or defines(source, path)


def _folders(spec: ModuleSpec) -> list[str]:
    return list(spec.submodule_search_locations or ())


def _source(spec: ModuleSpec) -> str | None:
    """The text of a module, from its file or out of a zip."""
    read = getattr(spec.loader, "get_source", None)
    return None if read is None else read(spec.name)


def installed(target: str) -> bool:
    """Whether the package of ``module:Class.attribute`` is imported or can be."""
    top = target.partition(":")[0].partition(".")[0]
    return top in sys.modules or find(top) is not None


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
