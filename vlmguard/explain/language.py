"""``VLMGUARD_LANG=zh``: a Chinese first line to each explanation, in logs and in runs."""

from __future__ import annotations

import os


def chinese() -> bool:
    """Whether a Chinese line is asked for."""
    return os.environ.get("VLMGUARD_LANG", "").lower().startswith("zh")
