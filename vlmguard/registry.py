"""The process's rules: our own, then what the entry-point group ``vlmguard`` brings."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Callable

from vlmguard.core.host import GROUP, Host
from vlmguard.runtime.faults import fault

OWN = "vlmguard.rules"
"""Taken in by name: a zip, ``--target`` or a bare checkout has no entry-point metadata."""


@functools.cache
def get() -> Host:
    """The process's host, loaded at the first use: entry points are never scanned at start-up."""
    return load(Host(fault))


def load(host: Host) -> Host:
    """Take in every plug-in, each contained."""
    _add(host, "rules", lambda: importlib.import_module(OWN))
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name):
        if entry.value != OWN:
            _add(host, entry.name, entry.load)
    return host


def _add(host: Host, name: str, find: Callable[[], object]) -> None:
    try:
        host.add(find(), name)
    except Exception as error:
        fault(f"plug-in {name}", error)
