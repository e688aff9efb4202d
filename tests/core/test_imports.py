"""Which part of the house may import which: arrows point down, and never between frameworks.

Read from the sources, lazy imports and those for types alone included.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import vlmguard

ROOT = Path(vlmguard.__file__).parents[1]
STOREYS = (
    ("_bootstrap",),  # the watcher: standard library only
    ("core",),
    ("runtime",),
    ("compat",),
    ("rules", "ledger"),
    ("registry", "agree", "run_report", "guard", "by_hand"),
    ("ledger",),
    ("ranks",),
    ("check",),
    ("rehearse",),
    ("selftest",),
    ("cli",),
)
"""From the ground up. A part may import its own storey and those below."""
FLOOR = {part: number for number, storey in enumerate(STOREYS) for part in storey}
ANYONE = {""}  # `vlmguard` itself: the version, and names that load on first use
DOORS = {"auto", "__main__", "_run", "_startup"}  # they begin everything; nobody imports them
WATCHER_ARMS = ("_bootstrap", "runtime")
"""The one arrow that runs up: at the first import of a framework the watcher calls `arm`."""

TRAINERS = ("swift", "flagembedding", "trl", "llamafactory", "accelerate")
"""Every Trainer framework stands on `vlmguard_transformers`, and so do loops, which are read as a
Trainer is. All others use their own folder and plain torch's."""


def modules(top):
    for file in sorted((ROOT / top).rglob("*.py")):
        parts = file.relative_to(ROOT / top).with_suffix("").parts
        yield file, parts[:-1] if parts[-1] == "__init__" else parts


def imported(file, package, lines=False):
    """Absolute names of all modules that a source imports; with their lines, if asked."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        for name in _names(node, file, package):
            yield (name, node.lineno) if lines else name


def _names(node, file, package):
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            up = package[: len(package) - node.level + (file.name == "__init__.py")]
            base = ".".join([*up, base]).rstrip(".")
        yield from (f"{base}.{alias.name}" for alias in node.names)


def part_of(name):
    """``vlmguard.core.settings`` → ``core``; of the package itself: its own name, or ""."""
    inner = name.split(".")[1:]
    known = bool(inner) and (inner[0] in FLOOR or inner[0] in DOORS or is_module(inner[0]))
    return inner[0] if known else ""


def is_module(name):
    folder = ROOT / "vlmguard" / name
    return folder.is_dir() or folder.with_suffix(".py").exists()


def arrows():
    """(from part, to part, file) of `vlmguard`."""
    for file, parts in modules("vlmguard"):
        for name in imported(file, ("vlmguard", *parts)):
            if name == "vlmguard" or name.startswith("vlmguard."):
                yield (parts[0] if parts else ""), part_of(name), file


def test_every_part_of_the_house_has_its_storey():
    parts = {parts[0] for _, parts in modules("vlmguard") if parts}
    assert parts - DOORS <= set(FLOOR), "put it on a storey"


def test_no_arrow_runs_up():
    up = {
        (here, there, file.relative_to(ROOT).as_posix())
        for here, there, file in arrows()
        if there not in ANYONE and here not in DOORS and (here, there) != WATCHER_ARMS
        if there in DOORS or here in ANYONE or FLOOR[there] > FLOOR[here]
    }
    assert not up


def test_the_ground_floor_stands_alone():
    beneath = {there for here, there, _ in arrows() if here == "core"}
    assert beneath <= {"core"}


def test_the_house_knows_no_adapter():
    """By import; a name in a string is looked up at run time, if such a package is there."""
    for file, parts in modules("vlmguard"):
        for name in imported(file, ("vlmguard", *parts)):
            assert not name.startswith("vlmguard_"), file


def adapters():
    return sorted(p.name for p in (ROOT / "plugins").glob("vlmguard_*") if p.is_dir())


def allowed(adapter):
    name = adapter.removeprefix("vlmguard_")
    return {name, "torch", "transformers"} if name in TRAINERS else {name, "torch"}


@pytest.mark.parametrize("adapter", adapters())
def test_no_arrow_from_one_frameworks_folder_into_anothers(adapter):
    for file, parts in modules(f"plugins/{adapter}"):
        used = {name.partition(".")[0] for name in imported(file, (adapter, *parts))}
        used = {name.removeprefix("vlmguard_") for name in used if name.startswith("vlmguard_")}
        assert used <= allowed(adapter), file


@pytest.mark.parametrize("adapter", adapters())
def test_adapters_do_not_use_the_upper_storeys(adapter):
    """An adapter works with what a run needs: not with the command line."""
    for file, parts in modules(f"plugins/{adapter}"):
        used = {part_of(n) for n in imported(file, (adapter, *parts)) if n.startswith("vlmguard.")}
        assert not used & {"cli", *DOORS}, file
