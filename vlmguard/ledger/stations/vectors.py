"""A few sums with vectors as lists of numbers: sketches have sixteen."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence

Vector = Sequence[float]


def plus(a: Vector, b: Vector, factor: float = 1.0) -> list[float]:
    """``a + factor · b``."""
    return [x + factor * y for x, y in zip(a, b, strict=True)]


def mean(vectors: Iterable[Vector]) -> list[float]:
    """The mean of one or more."""
    every = list(vectors)
    if len(every) == 1:
        return list(every[0])
    return [sum(column) / len(every) for column in zip(*every, strict=True)]


def dot(a: Vector, b: Vector) -> float:
    """Inner product."""
    return float(sum(map(operator.mul, a, b)))


def length(a: Vector) -> float:
    """Euclidean norm."""
    return math.hypot(*a)


def finite(a: Vector) -> bool:
    """Whether no entry is NaN or infinite."""
    return all(map(math.isfinite, a))
