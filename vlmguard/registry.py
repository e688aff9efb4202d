"""The process's rules: our own, then what the entry-point group ``vlmguard`` brings."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Callable

from vlmguard.core.host import GROUP, OTHERS, Host
from vlmguard.runtime.faults import fault

OWN = "vlmguard.rules"
"""Taken in by name: a zip, ``--target`` or a bare checkout has no entry-point metadata."""
WRAP = frozenset(
    f"vlmguard_{name}"
    for name in ("swift", "trl", "llamafactory", "accelerate", "flagembedding", "colossalai")
)
"""Adapters of ours: the watcher imports each of them with its framework, and `OWN` lists their
rules."""


@functools.cache
def get() -> Host:
    """The process's host, loaded at the first use: entry points are never scanned at start-up."""
    return load(Host(fault))


def load(host: Host) -> Host:
    """Take in every plug-in, each contained."""
    _add(host, "rules", lambda: importlib.import_module(OWN))
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name):
        if entry.value != OWN and entry.value not in WRAP:
            _add(host, entry.name, entry.load, _of(entry))
    return host


def _of(entry: importlib.metadata.EntryPoint) -> str:
    """What to call a plug-in where it fails: with its distribution, where it is not ours."""
    dist = getattr(entry, "dist", None)
    name = "" if dist is None else str(dist.metadata["Name"])
    if name.lower() == "vlmguard":
        return f"plug-in {entry.name}"
    return f"{OTHERS} {entry.name}" + (f" ({name} {dist.version})" if dist is not None else "")


def _add(host: Host, name: str, find: Callable[[], object], what: str = "") -> None:
    try:
        host.add(find(), name)
    except Exception as error:
        fault(what or f"plug-in {name}", error)
