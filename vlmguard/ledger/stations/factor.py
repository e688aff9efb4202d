"""One factor that takes all gradients of an optimizer to what it gets: explained, or shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from vlmguard.ledger.account import Account

SAME = 2e-3
"""Relative difference up to which two factors, or two norms, are the same."""
WRAPPERS = ("ddp", "zero", "fsdp")
"""Strategies that average over ranks."""


_ONCE = (
    "divide the loss scale out once: scaler.unscale_(optimizer), then clip, then scaler.step; or "
    "update DeepSpeed and the trainer"
)
SIGN = "look for code that changes the sign of gradients between backward and step"
_MEAN = "take out your own all_reduce or division over ranks"


@dataclass(frozen=True)
class Told:
    """A factor in words.

    Attributes:
        why: "" if it is explained, or waits for a second window.
        clipped: the norm that gradients were clipped to, None if they were not.
        advice: what usually causes it.
    """

    level: Literal["warning", "note"] = "note"
    why: str = ""
    clipped: float | None = None
    advice: str = ""


@dataclass(frozen=True)
class Seen:
    """A window's factor and what is known about its step.

    Attributes:
        scale: of a GradScaler that divided it out, 1 without.
        norm: of all gradients that the optimizer gets.
        most: the norm that the run clips to; None if unknown.
        parts: most gradients that reached one tensor of one rank.
        touched: whether a user's hook may have done it.
    """

    factor: float
    scale: float
    norm: float
    most: float | None
    parts: int
    touched: bool
    bound: float

    def near(self, value: float, given: float | None = None) -> bool:
        """Whether the factor, or another number, is a value."""
        found = self.factor * self.scale if given is None else given
        return abs(found - value) <= max(SAME, self.bound) * abs(value)


def explain(seen: Seen, account: Account, memory: dict[str, Any]) -> Told:
    """What a factor is: nothing, clipping, or what has to be said."""
    left = seen.factor * seen.scale
    past = memory.get("factors", [])
    memory["factors"] = [*past[-3:], (left, seen.norm)]
    if seen.near(1.0):
        return Told()
    if seen.scale != 1.0 and (seen.near(seen.scale) or seen.near(1 / seen.scale)):
        return Told("warning", _scaled(seen), advice=_ONCE)
    if left < 0:
        why = f"gradients are negated: the factor is {left:.4g}"
        return Told("warning", why, advice=SIGN)
    if left < 1 and _clipped(seen, left, past):
        return Told(clipped=seen.norm)
    return _shown(seen, left, account, past)


def _scaled(seen: Seen) -> str:
    """The loss scale is in it once too often, or was left in."""
    if seen.near(seen.scale):
        return f"gradients still carry the loss scale of {seen.scale:g}"
    return f"gradients were divided by the loss scale of {seen.scale:g} twice"


def _clipped(seen: Seen, left: float, past: list[tuple[float, float]]) -> bool:
    """Whether the norm is the one that is set, or stays what it was while the factor changes."""
    if seen.most is not None:
        return seen.near(seen.most, seen.norm)
    before = [norm for factor, norm in past if factor < 1 and not seen.near(factor)]
    return _round(seen) or any(seen.near(norm, seen.norm) for norm in before)


def _round(seen: Seen) -> bool:
    """Whether it is a number that people clip to: 1, 0.5, 0.1, 2, 5, 10."""
    if seen.norm <= 0:
        return False
    power = 10.0 ** math.floor(math.log10(seen.norm))
    return any(seen.near(digit * power, seen.norm) for digit in (1.0, 2.0, 3.0, 5.0, 10.0))


def _shown(seen: Seen, left: float, account: Account, past: list[tuple[float, float]]) -> Told:
    world, averages = account.world, account.strategy.startswith(WRAPPERS)
    said = f"the optimizer gets {left:.4g} times the mean gradient"
    if world > 1 and (seen.near(world) or seen.near(1 / world)):
        how = "as if summed" if seen.near(world) else "as if averaged twice"
        level: Literal["warning", "note"] = "warning" if averages and not seen.touched else "note"
        return Told(level, f"{said}, {how} over {world} ranks", advice=_MEAN)
    if seen.parts > 1 and (seen.near(seen.parts) or seen.near(1 / seen.parts)):
        return Told("note", f"{said}; {seen.parts} micro-batches were accumulated")
    steady = any(seen.near(factor) for factor, _ in past)
    if left < 1 and not steady:
        return Told("note", f"{said}, which nothing explains" if past else "")
    return Told("note", f"{said}, which nothing explains")
