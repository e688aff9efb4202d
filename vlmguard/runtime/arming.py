"""Arm an adapter: attach its seams, lazily. Light, since ``find_spec("swift")`` alone gets here."""

from __future__ import annotations

import importlib

from vlmguard.runtime import seams

armed: list[str] = []


def arm(adapter: str) -> None:
    """Attach the seams of the module ``adapter`` (its ``SEAMS``), once."""
    if adapter in armed:
        return
    armed.append(adapter)
    seams.attach(importlib.import_module(adapter).SEAMS)
