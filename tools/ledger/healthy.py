"""Healthy runs beside those that tools/ordinary draws: what users rightly do to gradients, weights
and learning rates, under each strategy. Nothing may be said of them, and no bit changed."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
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


def variant(world: int | Sequence[int] = 1, **choices: Sequence[Any]) -> Callable[[Any], Any]:
    """Register a function for every number of ranks and every combination of ``choices``."""

    def registered(prepare: Callable[..., None]) -> Callable[..., None]:
        for ranks in (world,) if isinstance(world, int) else world:
            for chosen in itertools.product(*choices.values()):
                told = dict(zip(choices, chosen, strict=True))
                name = " ".join(
                    [prepare.__name__, *map(_word, told.values()), f"x{ranks}" * (ranks > 1)]
                )
                VARIANTS[name.strip()] = Variant(name.strip(), _bound(prepare, told), ranks)
        return prepare

    return registered


def _word(value: Any) -> str:
    return str(value).removeprefix("torch.").replace(" ", "-").replace("/", "-")


def _bound(prepare: Callable[..., None], told: Mapping[str, Any]) -> Callable[[Any], None]:
    def bound(run: Any) -> None:
        run.ddp = {"find_unused_parameters": False}
        if run.world > 1:
            run.strategy = "ddp"
        prepare(run, **told)

    return bound


def load() -> dict[str, Variant]:
    """All of them; imports torch."""
    for name in ("gradients", "weights", "losses", "strategies"):
        importlib.import_module(f"tools.ledger.healthy_{name}")
    return VARIANTS
