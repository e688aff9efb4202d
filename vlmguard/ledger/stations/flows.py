"""One gradient on its way: what each rank's backward made of it, and what optimizers get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vlmguard.ledger.account import Tensor
from vlmguard.ledger.stations.vectors import Vector, dot, finite, length, mean, plus

FLOOR = 2e-4
"""Relative difference below which nothing is said: healthy fp32 runs are at most 1e-5 off."""
UNTOLD = 1e-3
"""A sketch that is shorter than this part of its tensor tells no factor: it is rounding."""
DIGITS = 1e-2
"""How much of a tensor's size rounding may be where a factor is read."""
STEADY = 2.0
"""How many times eps · √parts a healthy sum may be off."""
_STEPS = 4.0
"""How many times the smallest number an entry may be off: that with all digits, of fp16 that with
one, since hardware may take the others for zero."""
_HALF = 2.0**-10
"""The eps of fp16."""


@dataclass(frozen=True)
class Flow:
    """One tensor of one optimizer in one window; vectors are sketches.

    Attributes:
        place: in the account.
        parts: gradients that reached the leaf, by rank.
        step: their sum since the last step, by rank.
        none: their sum since the gradient was None or zero, by rank.
        first: the first of them, by rank.
        given: what each rank's optimizer gets; one for all where ranks hold shards of it.
        has: whether a rank's optimizer gets one at all.
        eps: the coarsest precision on the way.
        energy: root of the sum of the squares of all parts, by their mean over ranks.
        carried: whether the gradient held something when the window's first part came.
        square: of the entries that the optimizer gets, their squares' sum.
        peak: the largest of them.
        least: how far the sums of its entries may be off, absolutely, since numbers near the
            smallest of their type have few digits.
    """

    place: int
    parts: tuple[int, ...]
    step: tuple[Vector, ...]
    none: tuple[Vector, ...]
    first: tuple[Vector, ...]
    given: tuple[Vector, ...]
    has: bool
    eps: float
    energy: float
    carried: bool
    square: float
    peak: float
    least: float = 0.0

    @cached_property
    def sums(self) -> tuple[list[float], list[float]]:
        """What the optimizer should get: since the last step, since None."""
        step = mean(self.step)
        return step, step if self.none == self.step else mean(self.none)

    @cached_property
    def bound(self) -> float:
        """How far, relatively, rounding may take the one from the other."""
        return max(FLOOR, STEADY * self.eps * math.sqrt(max(self.parts) + len(self.parts)))

    @cached_property
    def norm(self) -> float:
        """Of the entries that the optimizer gets. Their sketch is about as long, unless rows of
        the tensor are alike and cancel in it: those of a new adapter do at times."""
        return math.sqrt(self.square) if math.isfinite(self.square) else 0.0

    def off(self, given: Vector, made: Vector, factor: float = 1.0) -> float:
        """Relative difference between what is given and ``factor`` times what was made."""
        size = max(length(given), abs(factor) * max(length(made), self.energy), self.norm)
        size = max(size, abs(factor) * self.least / self.bound)
        return length(plus(given, made, -factor)) / size if size > 0 else 0.0

    def fits(self, given: Vector, made: Vector, factor: float = 1.0) -> bool:
        """Whether rounding explains the difference."""
        return self.off(given, made, factor) <= self.bound

    @cached_property
    def factor(self) -> float | None:
        """The number that takes one of its sums to what all ranks get; None if there is none."""
        for made in self.sums:
            size = dot(made, made)
            told = length(self.given[0]) > UNTOLD * self.norm
            told = told and length(made) * DIGITS > self.least  # a smaller one is rounding, too
            if told and size > 0 and length(made) > self.bound * self.energy:
                factor = dot(self.given[0], made) / size
                if all(self.fits(each, made, factor) for each in self.given):
                    return factor
        return None

    def balances(self, factor: float = 1.0) -> bool:
        """Whether all ranks get one of the sums, times a factor."""
        return self.by(factor) is not None

    def by(self, factor: float = 1.0) -> str | None:
        """Which sum all ranks get."""
        for name, off in zip(("step", "none"), self.furthest(factor), strict=True):
            if off <= self.bound:
                return name
        return None

    def furthest(self, factor: float) -> tuple[float, float]:
        """Of each sum, times a factor: its relative difference to what a rank gets, on the rank
        where it is largest. Asked often for the same factor."""
        if factor not in self._furthest:
            step, none = self.sums
            off = max(self.off(given, step, factor) for given in self.given)
            other = off if none is step else max(self.off(x, none, factor) for x in self.given)
            self._furthest[factor] = off, other
        return self._furthest[factor]

    @cached_property
    def _furthest(self) -> dict[float, tuple[float, float]]:
        return {}

    @property
    def finite(self) -> bool:
        """Whether all numbers are."""
        vectors = (*self.step, *self.none, *self.given)
        return all(map(finite, vectors)) and math.isfinite(self.energy)


def flows(pages: Sequence[Any], tensors: Sequence[Tensor]) -> list[Flow]:
    """Of all ranks' pages of one window: a flow for each tensor that one of them watched."""
    read = [page["reduce"] for page in pages]
    rows = [{place: row for row, place in enumerate(each["index"])} for each in read]
    places = sorted({place for each in rows for place in each})
    unread = {place for each in read for place, _ in each["unread"]}
    return [
        _flow(place, read, rows, tensors[place].numel) for place in places if place not in unread
    ]


def _flow(place: int, read: Sequence[Any], rows: Sequence[dict[int, int]], entries: int) -> Flow:
    here = [(each, row[place]) for each, row in zip(read, rows, strict=True) if place in row]
    blank = [0.0] * len(here[0][0]["step"][here[0][1]])

    def column(name: str, default: Any) -> list[Any]:
        return [
            each[name][row[place]] if place in row and each.get(name) is not None else default
            for each, row in zip(read, rows, strict=True)
        ]

    step = column("step", blank)
    none = column("none", None)
    given, shards = column("given", blank), 2 in column("read", 0)
    energy = math.sqrt(sum(_one(each) for each in column("energy", 0.0))) / len(read)
    square = [_one(each) for each in column("square", 0.0)]
    known = (*column("eps", 0.0), *(each.get("sent", 0.0) for each in read))
    return Flow(
        place,
        tuple(column("parts", 0)),
        tuple(step),
        tuple(made if made is not None else step[rank] for rank, made in enumerate(none)),
        tuple(column("first", blank)),
        (tuple(mean(given)),) if shards else tuple(given),
        any(column("read", 0)),
        max(known),
        energy,
        any(_one(each) > 0 for each in column("carried", 0.0)),
        sum(square) / len(square) if shards else max(square),
        max(_one(each) for each in column("peak", 0.0)),
        _STEPS * (2.0**-24 if _HALF in known else 2.0**-126) * math.sqrt(entries),
    )


def _one(value: Any) -> float:
    """A number, or the only one of a list."""
    return float(value[0] if isinstance(value, (list, tuple)) else value)
