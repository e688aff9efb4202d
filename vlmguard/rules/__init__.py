"""Our own rules: one a file, and one a failure of the catalogue of `vlmguard_explain`."""

from __future__ import annotations

import importlib
import pkgutil

from vlmguard.rules import known

_FILES = tuple(
    importlib.import_module(f"{__name__}.{info.name}")
    for info in pkgutil.iter_modules(__path__)
    if info.name.startswith("vg")
)
RULES = (*_FILES, *known.RULES)
