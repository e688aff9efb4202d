"""The graph of all our modules: no circle, no arrow up between the folders of a plug-in, and no
folder that nobody finds anything in.

Read from the sources, lazy imports included; those for types alone are not among them.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.core.test_imports import ROOT, adapters, imported, modules

FOLDERS = {
    "vlmguard_torch": (
        ("errors", "transaction", "releases", "module_calls", "zero_contribution"), ("stepping",),
        ("layout",), ("media",), ("observe",), ("blank",), ("watch",), ("ledger",),
    ),
    "vlmguard_transformers": (
        ("data", "checkpointing", "trainer", "accelerators", "tiny"),
        ("profile",), ("profiles", "model_reading"), ("shared_rows",), ("model", "row_order"),
        ("watch",),
        ("arguments", "apply"), ("translate",), ("lifecycle", "rehearsal", "check", "selftest"),
        ("rehearse",),
    ),
}  # fmt: skip
"""From the ground up: a part may import itself and those below."""
MOST = 20
"""Modules of a folder."""
LONG = {"vlmguard/rules"}
"""A file a rule."""
WATCHER = ("vlmguard._bootstrap", "vlmguard.runtime.seams")
"""The one arrow that runs up: at the first import of a framework the watcher calls `arm`."""


@cache
def graph():
    """Module → the modules of ours that it imports."""
    found = {".".join((top, *parts)): (file, top, parts) for top, file, parts in every()}
    return {
        name: {whose(each, found) for each in at_run_time(file, (top, *parts))} - {name, None}
        for name, (file, top, parts) in found.items()
    }


def every():
    for top in ("vlmguard", *adapters()):
        where = top if top == "vlmguard" else f"plugins/{top}"
        yield from ((top, file, parts) for file, parts in modules(where))


def whose(name, found):
    """The module that an imported name is, or lies in."""
    return next((each for each in (name, name.rpartition(".")[0]) if each in found), None)


def at_run_time(file, package):
    tree = ast.parse(file.read_text("utf-8"))
    types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n)]
    for_types = {line for n in types for line in range(n.lineno, n.end_lineno + 1)}
    for name, line in imported(file, package, lines=True):
        if line not in for_types:
            yield name


def circle(name, over, trail=()):
    """A way from ``name`` back to itself."""
    if name in trail:
        return [*trail[trail.index(name) :], name]
    if name in over:
        return None
    over.add(name)
    ways = (circle(each, over, (*trail, name)) for each in sorted(graph()[name]))
    return next((way for way in ways if way), None)


def test_no_module_imports_itself_by_way_of_others():
    graph()[WATCHER[0]].discard(WATCHER[1])
    over: set[str] = set()
    assert not [way for name in sorted(graph()) if (way := circle(name, over))]


@pytest.mark.parametrize("plugin", FOLDERS)
def test_no_arrow_runs_up_between_the_folders_of_a_plug_in(plugin):
    floor = {part: number for number, parts in enumerate(FOLDERS[plugin]) for part in parts}
    inside = {name: name.split(".")[1:2] for name in graph() if name.startswith(f"{plugin}.")}
    assert {part[0] for part in inside.values()} <= set(floor), "put it on a floor"
    up = {
        (name, other)
        for name, part in inside.items()
        for other in graph()[name] & set(inside)
        if floor[inside[other][0]] > floor[part[0]]
        or (part != inside[other] and floor[inside[other][0]] == floor[part[0]])
    }
    assert not up


def test_no_folder_is_flat_and_long():
    counts: dict[str, int] = {}
    for _, file, _ in every():
        folder = file.parent.relative_to(ROOT).as_posix()
        counts[folder] = counts.get(folder, 0) + (file.name != "__init__.py")
    assert {folder for folder, count in counts.items() if count > MOST} <= LONG


