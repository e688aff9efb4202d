"""The failures that are known, one a file. ``on_error`` and ``vlmguard explain`` read the same."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from vlmguard.explain.failure import Known


@functools.cache
def load() -> tuple[Known, ...]:
    """All of them, by code."""
    found = [
        importlib.import_module(f"{__name__}.{info.name}").FAILURE
        for info in pkgutil.iter_modules(__path__)
        if info.name.startswith("vg")
    ]
    return tuple(sorted(found, key=lambda known: known.code))


@functools.cache
def get(code: str) -> Known:
    """One by its code."""
    return next(known for known in load() if known.code == code)
