"""One pass over a command: what a rank is told, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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

    def weights(self, step: int, rank: int) -> Path:
        """Where a rank keeps its weights after a step; 0 is before the first."""
        return self.place / f"weights{step}.rank{rank}.npz"

    def begun(self, rank: int) -> Path:
        """Where a rank says which step it has begun."""
        return self.place / f"step.rank{rank}"

    @property
    def report(self) -> Path:
        """The guard's findings, ``.rankN`` before the suffix."""
        return self.place / "report.jsonl"
