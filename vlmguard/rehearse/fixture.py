"""One pass over a command: what a rank is told, and what it and the guard leave behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OFF, ON, REFERENCE = "guard off", "guard on", "reference"
BACKWARDS = "reference backwards"


@dataclass(frozen=True)
class Scene:
    """What a rank does in one pass.

    Attributes:
        place: a folder of this pass's own.
        single: without any wrapper, as one process that no launcher started.
        steps: training steps after which weights are kept.
        ends: it saves and evaluates as its command does (`ending`).
        counts: ends where training would begin, and says how many rows are left (`row_filter`).
        books: the ledger reads it, though the guard is off.
    """

    name: str
    entry: str
    argv: tuple[str, ...]
    folder: str
    place: Path
    env: Mapping[str, str] = field(default_factory=dict)
    guard: bool = False
    single: bool = False
    steps: tuple[int, ...] = ()
    ends: bool = False
    counts: bool = False
    books: bool = False

    def weights(self, step: int, rank: int) -> Path:
        """Where a rank keeps its weights after a step; 0 is before the first."""
        return self.place / f"weights{step}.rank{rank}.npz"

    def begun(self, rank: int) -> Path:
        """Where a rank says which step it has begun, and then that it is over."""
        return self.place / f"step.rank{rank}"

    @property
    def report(self) -> Path:
        """The guard's and the ledger's findings, ``.rankN`` before the suffix."""
        return self.place / "report.jsonl"


class NotHere(Exception):
    """What a rank ends with where its failure says nothing of the run elsewhere; says why."""


def fixes(scene: Scene) -> dict[str, str]:
    """Code → what the guard did, by its report of rank 0; stops of any rank."""
    found: dict[str, str] = {}
    for told in _reported(scene):
        if told.get("outcome") in ("fixed", "set", "stopped"):
            found.setdefault(
                told["code"], f"{told['outcome']}: {told.get('change') or told['why']}"
            )
    return found


def unbalanced(scene: Scene, own_rows: bool) -> str:
    """What the ledger, or VG302 in its place, warns of; "" if all that was read balances.

    own_rows: whether the rows are the user's, or stand-ins.
    """
    aside = _DEALT if own_rows else (*_DEALT, "VG610")
    found: dict[str, str] = {}
    for one in _reported(scene):
        code = one["code"]
        if one.get("level") == "warning" and code.startswith(_BOOKS) and code not in aside:
            found.setdefault(code, f"{code}: {one['why']}")
    return "; ".join(found.values())


_BOOKS = ("VG302", "VG6")
_DEALT = ("VG611", "VG612")
"""Pictures may be stand-ins, and a rehearsal deals the rows to the ranks itself."""


def booked(scene: Scene) -> bool:
    """Whether the ledger judged a step."""
    return any(True for _ in _reported(scene, "ledger"))


def _reported(scene: Scene, kind: str = "finding") -> Iterator[dict[str, Any]]:
    """What the guard reported, on all ranks."""
    for file in sorted(scene.place.glob("report*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            told = json.loads(line)
            if told.get("kind") == kind:
                yield told
