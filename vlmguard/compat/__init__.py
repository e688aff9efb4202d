"""The measured tables, asked. Here: where they lie. Imports nothing of ours: `vlmguard explain`
starts with it."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """The tables: ``$VLMGUARD_TABLES``, else inside the wheel, or the live folder of a checkout."""
    asked = os.environ.get("VLMGUARD_TABLES")
    if asked:
        return Path(asked)
    packed = Path(__file__).parents[1] / "_compat"
    return packed if packed.is_dir() else Path(__file__).parents[2] / "compat"
