"""Read a framework's source without importing it: which classes and functions it defines."""

from __future__ import annotations

import ast
import functools
import sys
from importlib.machinery import PathFinder
from pathlib import Path


@functools.cache
def has(target: str) -> bool:
    """Whether the installed release defines ``module:Class.attribute``. Nothing is imported."""
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


def installed(target: str) -> bool:
    """Whether the package of ``module:Class.attribute`` is imported or can be."""
    top = target.partition(":")[0].partition(".")[0]
    return top in sys.modules or PathFinder.find_spec(top) is not None


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
