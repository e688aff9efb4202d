"""What the guard reported in its own pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vlmguard.rehearse.fixture import Scene


def fixes(scene: Scene) -> dict[str, str]:
    """Code → what the guard did, by its report of rank 0; stops of any rank."""
    found: dict[str, str] = {}
    for told in _reported(scene):
        if told.get("outcome") in ("fixed", "set", "stopped"):
            found.setdefault(
                told["code"], f"{told['outcome']}: {told.get('change') or told['why']}"
            )
    return found


def unbalanced(scene: Scene) -> str:
    """What the ledger warns of at its station targets, which reads the loss that the reference
    shares with the run; "" if that balances. What goes wrong behind the backward shows in the
    updates, and the rows are the rehearsal's own."""
    told = (one for one in _reported(scene) if one.get("level") == "warning")
    return next((f"{one['code']}: {one['why']}" for one in told if one["code"] in _BOOKS), "")


_BOOKS = ("VG620",)
"""A wrong target. A scale of the loss (VG622) may be the rehearsal's own."""


def _reported(scene: Scene) -> Iterator[dict[str, Any]]:
    """The guard's findings, of all ranks."""
    for file in sorted(scene.place.glob("report*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            told = json.loads(line)
            if told.get("kind") == "finding":
                yield told
