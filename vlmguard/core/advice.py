"""Advice as data: what a user can change. A profile spells it in its framework's own flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


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
