"""Where a launched script finds its modules: its own folder, PYTHONPATH, what it appends itself."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from vlmguard.check.launcher import Job
from vlmguard.check.reading import python_files
from vlmguard.check.reading.named_files import Files
from vlmguard.check.shell.state import known

_CALLS = ("sys.path.append", "sys.path.insert")


def of(job: Job, files: Files) -> tuple[str, ...]:
    """Folders in the order in which Python looks into them; installed packages come behind."""
    module = job.target.startswith("-m ")
    path = files.path(job.target)
    found: list[str] = []
    if module:
        found.append(job.call.folder)
    elif known(path) and path.endswith(".py"):
        found.append(os.path.dirname(path))
    given = job.env.get("PYTHONPATH", "")
    found += [files.path(part) for part in given.split(":") if part and known(part)]
    if not module and os.path.isfile(path) and path.endswith(".py"):
        found += [files.path(name) for name in _appended(path)]
        found += _above(path).values()
    return tuple(dict.fromkeys(found))


def assumed(job: Job, files: Files) -> list[str]:
    """Of which packages it is taken for granted that they are installed where the job runs."""
    path = files.path(job.target)
    there = path.endswith(".py") and os.path.isfile(path)
    return [f"{name} is not installed here: read from {job.target}'s own folders"
            for name in (_above(path) if there else ())]  # fmt: skip


def _above(path: str) -> dict[str, str]:
    """Packages that the entry file is in itself and imports, and that are not installed here: the
    folder that ``pip install -e .`` would put on Python's path."""
    tree = python_files.parsed(f"file:{path}")
    names = {node.module.partition(".")[0] for node in (ast.walk(tree) if tree else ())
             if isinstance(node, ast.ImportFrom) and node.module and not node.level}  # fmt: skip
    found: dict[str, str] = {}
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder):
        name = os.path.basename(folder)
        installed = python_files.installed(name) if name in names else None
        if name in names and (installed is None or str(installed) == folder):
            found[name] = os.path.dirname(folder)
        folder = os.path.dirname(folder)
    return found


def _appended(path: str) -> Iterator[str]:
    """What the entry file puts on ``sys.path``, as far as its text alone tells."""
    tree = python_files.parsed(f"file:{path}")
    names = {"__file__": path}
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = _text(node.value, names)
            if value is not None:
                names[node.targets[0].id] = value
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS and node.args:
            value = _text(node.args[-1], names)
            if value:
                yield value


def _text(node: ast.expr, names: dict[str, str]) -> str | None:
    """A path that is joined out of ``__file__``, texts and names; None for all else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        inner = _text(node.value, names)
        return None if inner is None else os.path.dirname(inner)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        sides = _text(node.left, names), _text(node.right, names)
        return None if None in sides else os.path.join(*filter(None, sides))
    if not isinstance(node, ast.Call):
        return None
    called = ast.unparse(node.func).rpartition(".")[2]
    if called in ("resolve", "absolute") and isinstance(node.func, ast.Attribute):
        return _text(node.func.value, names)
    parts = [_text(one, names) for one in node.args]
    if not parts or None in parts:
        return None
    texts = [part for part in parts if part is not None]
    act = {"join": lambda: os.path.join(*texts), "dirname": lambda: os.path.dirname(texts[0]),
           "abspath": lambda: texts[0], "realpath": lambda: texts[0], "str": lambda: texts[0],
           "normpath": lambda: texts[0], "Path": lambda: texts[0]}.get(called)  # fmt: skip
    return act() if act else None
