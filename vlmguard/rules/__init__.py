"""Our own rules, one a file. The entry point ``vlmguard:rules`` leads here."""

from __future__ import annotations

import importlib
import pkgutil

RULES = tuple(
    importlib.import_module(f"{__name__}.{info.name}")
    for info in pkgutil.iter_modules(__path__)
    if info.name.startswith("vg")
)
