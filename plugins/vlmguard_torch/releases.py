"""Which releases of the packages around us are installed."""

from __future__ import annotations

import sys
from importlib import metadata


def releases(*names: str) -> dict[str, str]:
    """Distribution → version, of those that are installed.

    Torch's is the imported module's. So is that of a package without metadata, as a checkout on
    PYTHONPATH is, where it is named as its distribution.
    """
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = getattr(sys.modules.get(name), "__version__", None)
            if isinstance(version, str):
                found[name] = version
    if "torch" in sys.modules:
        found["torch"] = str(sys.modules["torch"].__version__)
    return found
