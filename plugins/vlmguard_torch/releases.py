"""Which releases of the packages around us are installed."""

from __future__ import annotations

import sys
from importlib import metadata


def releases(*names: str) -> dict[str, str]:
    """Distribution → version, of those that are installed; torch's from the imported module."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if "torch" in sys.modules:
        found["torch"] = str(sys.modules["torch"].__version__)
    return found
