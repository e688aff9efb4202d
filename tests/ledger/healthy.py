"""Healthy runs beside those that tests/ordinary draws: what users rightly do to gradients, weights
and learning rates, under each strategy. Nothing may be said of them, and no bit changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Variant:
    """Attributes:
    name: of the function, with what was chosen of it.
    prepare: makes the run.
    """

    name: str
    prepare: Callable[[Any], None]
    world: int = 1


VARIANTS: dict[str, Variant] = {}
