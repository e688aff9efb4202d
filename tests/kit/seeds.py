"""The seed of the runs that `make test` draws.

The sources of the guard decide it. So one state of the sources draws the same runs on every
machine, a failure can be seen again, and the next change of the sources draws others.
"""

from __future__ import annotations

import functools
import hashlib
import os

from tests.kit.envs import ROOT

LIMIT = 1_000_000


@functools.cache
def sources() -> str:
    """A digest of every Python and TOML file of vlmguard and its plug-ins, in hexadecimal."""
    digest = hashlib.sha256()
    for folder in ("vlmguard", "plugins"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in {".py", ".toml"} and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def seed(variable: str) -> int:
    """The seed of the environment variable ``variable``; without it, the one of the sources.

    Raises ValueError if the variable is set to something other than a whole number.
    """
    return int(os.environ.get(variable) or int(sources()[:12], 16) % LIMIT)
