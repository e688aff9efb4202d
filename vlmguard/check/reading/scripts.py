"""A Python script or module that trains: which argument classes it parses, read from its tree."""

from __future__ import annotations

import ast
import os

from vlmguard.check.reading import sources
from vlmguard.check.reading.files import Files
from vlmguard.check.shell.state import known

_PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")


def module(target: str, files: Files) -> str:
    """A job's target as a module for `sources`; "" where there is no such file here."""
    if not known(target):
        return ""
    if target.startswith("-m "):
        name = target.removeprefix("-m ")
        for candidate in (f"{name}.__main__", name):
            file = sources.module_file(candidate)
            if file is not None and file.name != "__init__.py":
                return candidate
        return ""
    path = files.path(target)
    return f"file:{path}" if path.endswith(".py") and os.path.isfile(path) else ""


def classes(module: str) -> list[sources.Class]:
    """The classes that its HfArgumentParser (or TRL's) is made of; [] where it has none.

    Raises:
        LookupError: one of them is not installed here; names it.
    """
    try:
        tree = sources.parsed(module)
    except (SyntaxError, ValueError, OSError):
        return []
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call) and _name(node.func) in _PARSERS and node.args:
            names = _names(node.args[0], tree)
            found = {name: sources.find(module, name) for name in names}
            for name, one in found.items():
                if one is None:
                    raise LookupError(name)
            return [one for one in found.values() if one is not None]
    return []


def overrides(module: str) -> tuple[dict[str, object], list[str]]:
    """What the script itself sets on its arguments: literal values, and names of the others."""
    try:
        tree = sources.parsed(module)
    except (SyntaxError, ValueError, OSError):
        return {}, []
    told: dict[str, object] = {}
    other: list[str] = []
    for node in ast.walk(tree) if tree else ():
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if not isinstance(target, ast.Attribute) or not _name(target.value).endswith("args"):
                continue
            try:
                told[target.attr] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            except ValueError:
                other.append(target.attr)
    return told, other


def imports(module: str) -> set[str]:
    """Top-level packages that it imports anywhere."""
    try:
        tree = sources.parsed(module)
    except (SyntaxError, ValueError, OSError):
        return set()
    found = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.expr, tree: ast.Module | None) -> list[str]:
    """The names in a tuple of classes, through one variable."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return [name for item in node.elts if (name := _name(item))]
    if isinstance(node, ast.Name):
        for assigned in ast.walk(tree) if tree else ():
            if isinstance(assigned, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == node.id for target in assigned.targets
            ):
                return _names(assigned.value, None)
        return [node.id]
    return []
