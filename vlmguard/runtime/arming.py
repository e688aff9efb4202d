"""Arm an adapter: attach its seams, lazily. Light, since ``find_spec("swift")`` alone gets here."""

from __future__ import annotations

import importlib
import os

from vlmguard.runtime import seams

_OFF = {"off", "0", "false", "no"}
armed: list[str] = []


def is_off() -> bool:
    """Whether ``VLMGUARD`` switches the guard off. Read anew each time: notebooks change it."""
    return os.environ.get("VLMGUARD", "").strip().lower() in _OFF


def arm(adapter: str) -> None:
    """Attach the seams of the module ``adapter`` (its ``SEAMS``), once."""
    if adapter in armed:
        return
    armed.append(adapter)
    seams.attach(importlib.import_module(adapter).SEAMS)
