"""The cases: one value on each axis; combinations that cannot be are left out by `impossible`."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from vlmguard.compat.cases import ACCUMULATION, BATCHES, CHECKPOINTING, MODELS, STRATEGIES, TUNING

# full trains all; lora: only adapters on the language model, with input gradients enabled, as
# trainers do; lora_tower: the same with the vision tower trained; frozen_tower: all but the tower.


PARTS = ("full", "flips", "deepspeed", "transformers")


@dataclass(frozen=True, order=True)
class Case:
    """One measurement; the fields are the axes."""

    strategy: str
    checkpointing: str
    tuning: str
    model: str
    batch: str
    accumulation: int

    @property
    def key(self) -> str:
        """The case as one word, for example in ``--only`` and in tests' output."""
        return "/".join(map(str, astuple(self)))

    def control(self) -> Case:
        """The plain case of this column; if it fails, nothing can be said here."""
        return replace(self, checkpointing="none", batch="images", accumulation=1)

    def reference(self) -> tuple[str, str, str, int]:
        """What the single-process run depends on."""
        return self.tuning, self.model, self.batch, self.accumulation

    def data(self) -> dict[str, Any]:
        """For a record."""
        return asdict(self)


_VALUES = {
    axis: tuple(map(str, values))
    for axis, values in zip(
        Case.__dataclass_fields__,
        (STRATEGIES, CHECKPOINTING, TUNING, MODELS, BATCHES, ACCUMULATION),
        strict=True,
    )
}


def impossible(case: Case) -> str | None:
    """Why this combination is left out; None if it can be measured."""
    if case.model == "per_image" and case.batch == "text":
        return "a tower that is called once per image is not called without images"
    if case.strategy == "fsdp2" and case.model == "tied":
        return "FSDP2 shards a module once, a weight in two units is refused"
    return None


def all_cases() -> list[Case]:
    """The whole product, less the impossible, in the order of the records."""
    product = itertools.product(STRATEGIES, CHECKPOINTING, TUNING, MODELS, BATCHES, ACCUMULATION)
    return sorted(case for axes in product if not impossible(case := Case(*axes)))


def can_flip(case: Case) -> bool:
    """Whether a release has been seen to change, or can be thought to change, the verdict.

    Each strategy and checkpoint variant with images on every model, each kind of batch on one, and
    ZeRO-3, which releases did change, with every tuning: what is left out repeats one of these.
    """
    plain = case.model == "two_tower" and case.tuning == "full"
    if case.accumulation == 2:
        return plain and case.batch == "images"
    if case.strategy == "zero3":
        return case.batch == "images" or (
            case.batch == "image_then_text" and case.tuning in ("full", "frozen_tower")
        )
    if case.batch == "images" and case.strategy not in ("zero1", "zero1_overlap", "zero2"):
        return case.tuning in ("full", "lora")
    return plain or (case.batch == "images" and case.tuning == "full")


def of_part(part: str, case: Case) -> bool:
    """part: "full"; "flips" (`can_flip`); "deepspeed" or "transformers": the flips that only those
    packages (with transformers, peft) take part in. Raises ValueError for any other.
    """
    if part == "full":
        return True
    if part not in PARTS:
        raise ValueError(f"{part}: a part is one of {', '.join(PARTS)}")
    if not can_flip(case):
        return False
    if part == "deepspeed":
        return case.strategy.startswith("zero")
    return part == "flips" or case.model == "qwen2_vl" or case.tuning == "lora"


def select(cases: Iterable[Case], only: Iterable[str]) -> Iterator[Case]:
    """Cases that meet all of ``only``: "axis=value[,value…]" or a whole key.

    Raises ValueError naming what cannot be read.
    """
    wanted: dict[str, set[str]] = {}
    keys = set()
    for word in only:
        axis, sign, values = word.partition("=")
        if sign and axis in _VALUES:
            if unknown := set(values.split(",")).difference(_VALUES[axis]):
                raise ValueError(f"{unknown.pop()}: {axis} is one of {', '.join(_VALUES[axis])}")
            wanted.setdefault(axis, set()).update(values.split(","))
        elif word.count("/") == len(_VALUES) - 1:
            keys.add(word)
        else:
            raise ValueError(f"{word}: an axis is one of {', '.join(_VALUES)}")
    cases = list(cases)
    if unknown := keys - {case.key for case in cases}:
        raise ValueError(f"{unknown.pop()}: no such case, or not in this part")
    for case in cases:
        told = {axis: str(value) for axis, value in case.data().items()}
        if keys and case.key not in keys:
            continue
        if all(told[axis] in values for axis, values in wanted.items()):
            yield case


def draw(cases: Iterable[Case], number: int, seed: int) -> list[Case]:
    """``number`` cases, the same for the same seed."""
    return random.Random(seed).sample(sorted(cases), number)
