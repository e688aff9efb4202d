"""The functions of our own adapters, for tests that make each of them fail."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path

from tests.kit import envs

COMMANDS = ("check", "selftest", "rehearse", "formats")
"""What commands read of an adapter (formats: of `rehearse`): no training comes there."""


def functions(package: str, outside: Collection[str]) -> list[str]:
    """``module:Class.function`` of a package under plugins, the nested ones left out.

    Args:
        outside: what users and the framework call themselves.
    """
    folder = envs.ROOT / "plugins" / package
    files = sorted(file for file in folder.glob("*.py") if file.stem not in COMMANDS)
    return [target for file in files for target in _of_file(package, file, outside)]


def _of_file(package: str, file: Path, outside: Collection[str]) -> list[str]:
    module = package + ("" if file.stem == "__init__" else f".{file.stem}")
    found = []
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name not in outside:
            found.append(f"{module}:{node.name}")
        if isinstance(node, ast.ClassDef):
            inside = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found += [f"{module}:{node.name}.{each.name}" for each in inside]
    return found
