"""What rules answer with: a `Finding`, the remedies it may ask for, and advice (data, never code).

Advice is what a user can change. A profile spells it in its framework's own flags.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["note", "warning", "error"]
Scope = Literal["run", "rank"]

PAGES = "https://github.com/vlmguard/vlmguard/blob/main/docs/rules/"
"""Where a rule's page is found."""


@dataclass(frozen=True)
class SetVariant:
    """Gradient checkpointing with this ``use_reentrant``."""

    use_reentrant: bool

    def __str__(self) -> str:
        return f"set use_reentrant={self.use_reentrant}"


@dataclass(frozen=True)
class NoCheckpointing:
    """No gradient checkpointing, of one tower or of all."""

    tower: str = ""

    def __str__(self) -> str:
        of = f" of the {self.tower} tower" if self.tower else ""
        return f"turn gradient checkpointing{of} off"


@dataclass(frozen=True)
class FindUnused:
    """DDP's ``find_unused_parameters``."""

    value: bool = True

    def __str__(self) -> str:
        return f"set find_unused_parameters={self.value}"


@dataclass(frozen=True)
class StaticGraph:
    """DDP's ``static_graph``."""

    value: bool

    def __str__(self) -> str:
        return f"set static_graph={self.value}"


@dataclass(frozen=True)
class FreezeTower:
    """A tower that must not train, or several: "vision,aligner".

    Attributes:
        unmeant: right only if it was not meant to train, which the user alone knows.
    """

    tower: str = "vision"
    unmeant: bool = False

    def __str__(self) -> str:
        towers = self.tower.split(",")
        they = "they are" if len(towers) > 1 else "it is"
        condition = f"if {they} not meant to train, " if self.unmeant else ""
        return f"{condition}freeze {' and '.join(towers)}"


@dataclass(frozen=True)
class Strategy:
    """Another way to distribute the model: "zero2", "ddp", …"""

    name: str

    def __str__(self) -> str:
        return f"use {self.name}"


@dataclass(frozen=True)
class Upgrade:
    """A newer release of a distribution."""

    package: str
    release: str = ""

    def __str__(self) -> str:
        return f"upgrade {self.package}" + (f" to {self.release} or newer" if self.release else "")


@dataclass(frozen=True)
class PadWithBlank:
    """A blank input where a batch has none. Also a remedy: the adapter can put it in."""

    def __str__(self) -> str:
        return "give every row an image (vlmguard rows DATA --blank OUT)"


@dataclass(frozen=True)
class SameKind:
    """Batches of one kind on all ranks."""

    def __str__(self) -> str:
        return "give media to all ranks or to none"


@dataclass(frozen=True)
class SameImages:
    """The same number of images in every batch."""

    def __str__(self) -> str:
        return "give all batches of all ranks the same number of images"


@dataclass(frozen=True)
class MeanLoss:
    """The loss as the model means it, averaged. Also a remedy: the adapter can see to it."""

    def __str__(self) -> str:
        return "have the trainer average the model's loss over ranks and micro-batches"


@dataclass(frozen=True)
class LongerRows:
    """A higher limit on a row's length, or fewer pixels."""

    def __str__(self) -> str:
        return "raise max_length, or lower the pixel budget"


Advice = (
    SetVariant
    | NoCheckpointing
    | FindUnused
    | StaticGraph
    | FreezeTower
    | Strategy
    | Upgrade
    | PadWithBlank
    | SameKind
    | SameImages
    | MeanLoss
    | LongerRows
)

Spell = Callable[[Advice], str]
"""How a framework writes a piece of advice; "" where it has no way of its own."""


_A_FLAG = (SetVariant, NoCheckpointing, FindUnused, StaticGraph, MeanLoss, LongerRows)
"""Advice of which a framework's own flag says all."""


def alternatives(
    advice: str | Iterable[Advice | str], spell: Spell | None = None, flags_alone: bool = False
) -> list[str]:
    """Each alternative of ``advice`` in words, the best one first.

    Args:
        flags_alone: without the words where the framework's own flag says all.
    """
    if isinstance(advice, str):
        return [advice] if advice else []
    told = []
    for each in advice:
        own = "" if spell is None or isinstance(each, str) else spell(each)
        alone = own if flags_alone and isinstance(each, _A_FLAG) else ""
        told.append(alone or (f"{each} ({own})" if own else str(each)))
    return told


def sentence(advice: str | Iterable[Advice | str], spell: Spell | None = None) -> str:
    """``advice`` in words, one "or" between the alternatives."""
    return "; or ".join(alternatives(advice, spell))


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
