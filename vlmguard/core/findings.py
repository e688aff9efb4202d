"""What rules answer with: a `Finding`, and the remedies it may ask for (data, never code)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["note", "warning", "error"]
Scope = Literal["run", "rank"]


@dataclass(frozen=True)
class Variant:
    """Remedy: how checkpointing and the wrapper are to run. None leaves a value as it is."""

    use_reentrant: bool | None = None
    find_unused: bool | None = None
    static_graph: bool | None = None


@dataclass(frozen=True)
class Freeze:
    """Remedy: these towers or name patterns must not train."""

    what: tuple[str, ...]


@dataclass(frozen=True)
class DummyImage:
    """Remedy: a text-only batch is completed in the data, with an image that bears no label."""


@dataclass(frozen=True)
class Choose:
    """Wish for a remedy: the variant that ``compat.choose(run)`` names. Rules do not choose."""


Remedy = Variant | Freeze | DummyImage
Wish = Remedy | Choose


@dataclass(frozen=True)
class Finding:
    """What a rule says.

    Attributes:
        code: stable, names the defect ("VG101").
        level: how bad it is if left alone. "note": may never happen; "error": will go wrong.
        why: one sentence, present tense, what happens and through what.
        scope: "run" (equal on all ranks: only rank 0 prints) or "rank".
        remedies: what would mend it; empty where only the user can.
        advice: what the user can do.
        evidence: where the knowledge comes from (release, issue, own measurement).
    """

    code: str
    level: Level
    why: str
    scope: Scope = "run"
    remedies: tuple[Wish, ...] = ()
    advice: str = ""
    evidence: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for the JSON report."""
        data = dataclasses.asdict(self)
        data["remedies"] = [repr(remedy) for remedy in self.remedies]
        return data
