"""What rules answer with: a `Finding`, and the remedies it may ask for (data, never code)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vlmguard.core.advice import Advice, MeanLoss, PadWithBlank, Spell, sentence

Level = Literal["note", "warning", "error"]
Scope = Literal["run", "rank"]

PAGES = "https://github.com/vlmguard/vlmguard/blob/main/docs/rules/"
"""Where a rule's page is found."""


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
    """Wish for a remedy: the variant that the tables name for the run. Rules do not choose."""


Remedy = Variant | Freeze | DummyImage | PadWithBlank | MeanLoss
Wish = Remedy | Choose


@dataclass(frozen=True)
class Finding:
    """What a rule says.

    Attributes:
        code: stable, names the defect ("VG101").
        level: how bad it is if left alone. "note": may never happen; "error": will go wrong.
        why: what happens, and through what, in one sentence.
        scope: "run" (equal on all ranks: only rank 0 prints) or "rank".
        remedies: what would mend it; empty where only the user can.
        advice: what the user can do: a sentence, or alternatives that the framework's profile
            spells in its own flags.
        evidence: where the knowledge comes from (release, issue, own measurement).
    """

    code: str
    level: Level
    why: str
    scope: Scope = "run"
    remedies: tuple[Wish, ...] = ()
    advice: str | tuple[Advice | str, ...] = ""
    evidence: str = ""

    def advise(self, spell: Spell | None = None) -> str:
        """The advice in words."""
        return sentence(self.advice, spell)

    @property
    def url(self) -> str:
        """The rule's page; "" for a rule that is not ours."""
        return f"{PAGES}{self.code}.md" if self.code.startswith("VG") else ""

    def as_dict(self, spell: Spell | None = None) -> dict[str, Any]:
        """Plain data, for the JSON report."""
        data = dataclasses.asdict(self)
        data["advice"] = self.advise(spell)
        data["remedies"] = [as_data(remedy) for remedy in self.remedies]
        data["url"] = self.url
        return data


def cut(text: str, most: int) -> str:
    """``text`` without its end, so that it has ``most`` characters; what is whole is in the
    report."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def tail(name: str, most: int = 40) -> str:
    """The last parts of a dotted name: with the tower's or adapter's own, without the wrappers'."""
    if len(name) <= most:
        return name
    end = name[-(most - 1) :]
    return f"…{end.partition('.')[2] or end}"


def listed(names: Sequence[str], most: int = 2) -> str:
    """ "a and b", "a, b, c"; of more than ``most`` the first one and how many there are besides."""
    if len(names) > most:
        return f"{names[0]} and {len(names) - 1} more"
    return ", ".join(names) if len(names) > 2 else " and ".join(names)


def as_data(remedy: Wish) -> dict[str, Any]:
    """A remedy as plain data: its kind, and what it sets."""
    values = dataclasses.asdict(remedy)
    return {
        "kind": type(remedy).__name__,
        **{name: value for name, value in values.items() if value is not None},
    }
