"""What a run is, in the words of the lab: the axes of a case, and a run's place on them.

The tables hold a verdict for each case. A run is rarely one case: it must work in all that it
requires (`Query.batches`, …) and should in those that it may meet (`Query.also_batches`, …).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from vlmguard.core.facts import Run

STRATEGIES = ("ddp", "ddp_find_unused", "ddp_static", "fsdp2", "zero1", "zero1_overlap", "zero2",
              "zero3")  # fmt: skip
"""zero1_overlap: ZeRO-1 with ``overlap_comm``, whose reduction is ZeRO-2's."""
CHECKPOINTING = ("none", "reentrant", "non_reentrant")
TUNING = ("full", "lora", "lora_tower", "frozen_tower")
MODELS = ("two_tower", "qwen2_vl", "per_image", "tied", "two_forwards")
BATCHES = ("images", "text", "differ", "differ_dummy", "image_then_text")
ACCUMULATION = (1, 2)

# What a tuning becomes when the tower is frozen as well.
FROZEN = {"full": "frozen_tower", "lora_tower": "lora"}


class Case(NamedTuple):
    """One case of the lab."""

    strategy: str
    checkpointing: str
    tuning: str = "full"
    model: str = "two_tower"
    batch: str = "images"
    accumulation: int = 1

    @property
    def decided_by(self) -> tuple[str, ...]:
        """Packages whose release can change its verdict."""
        names = ["torch"]
        if self.strategy.startswith("zero"):
            names.append("deepspeed")
        if self.model == "qwen2_vl":
            names.append("transformers")
            if self.tuning.startswith("lora"):
                names.append("peft")
        return tuple(names)


@dataclass(frozen=True)
class Query:
    """What is asked of the tables.

    Attributes:
        releases: distribution → version.
        strategy: as in `facts.Strategy`; under "ddp" the wrap options are part of the answer.
        wrap: the strategy of the tables that will run if nothing is changed.
        checkpointing: variants to choose among, the first that works best.
        tuning, models, batches: all must work.
        also_models, also_batches: should work: a batch may be of that kind.
    """

    releases: Mapping[str, str]
    strategy: str
    wrap: str
    checkpointing: tuple[str, ...] = ("non_reentrant", "reentrant")
    tuning: tuple[str, ...] = ("full",)
    models: tuple[str, ...] = ("two_tower",)
    batches: tuple[str, ...] = ("images",)
    accumulation: int = 1
    also_models: tuple[str, ...] = ()
    also_batches: tuple[str, ...] = ()

    @property
    def wraps(self) -> tuple[str, ...]:
        """Strategies of the tables to choose among, that which will run first."""
        if self.strategy != "ddp":
            return (self.wrap,)
        others = ("ddp_find_unused", "ddp", "ddp_static")
        return (self.wrap, *(other for other in others if other != self.wrap))

    def required(self, wrap: str, checkpointing: str) -> list[Case]:
        """The cases that must work."""
        return self._cases(wrap, checkpointing, self.models, self.batches)

    def possible(self, wrap: str, checkpointing: str) -> list[Case]:
        """The cases that it may meet as well."""
        models = (*self.models, *self.also_models)
        batches = (*self.batches, *self.also_batches)
        every = self._cases(wrap, checkpointing, models, batches)
        required = set(self.required(wrap, checkpointing))
        return [case for case in every if case not in required]

    def _cases(
        self, wrap: str, checkpointing: str, models: Iterable[str], batches: Iterable[str]
    ) -> list[Case]:
        batches = tuple(batches)
        return [
            Case(wrap, checkpointing, tuning, model, batch, self.accumulation)
            for tuning in self.tuning
            for model in models
            for batch in batches
        ]


def of(run: Run) -> Query:
    """The query that answers for ``run``. Depends only on what is equal on all ranks."""
    return Query(
        releases=run.releases,
        strategy=run.strategy,
        wrap=_wrap(run),
        checkpointing=("non_reentrant", "reentrant") if run.checkpointing.on else ("none",),
        tuning=_tuning(run),
        models=_models(run),
        batches=("images", "differ_dummy") if run.pads else ("images",),
        accumulation=2 if run.accumulation > 1 else 1,
        also_models=("per_image",) if run.repeats == "possible" else (),
        also_batches=_idle(run),
    )


def _wrap(run: Run) -> str:
    if run.strategy == "zero1" and run.overlap_comm:
        return "zero1_overlap"
    if run.strategy != "ddp":
        return run.strategy
    if run.static_graph:
        return "ddp_static"
    return "ddp_find_unused" if run.find_unused else "ddp"


def _tuning(run: Run) -> tuple[str, ...]:
    adapters = run.tuning != "full" or any(tower.adapters for tower in run.towers)
    if not run.frozen and not adapters:
        return ("full",)
    if run.trained_towers or run.text_skips:  # a row can skip a part that trains
        return ("lora_tower",)
    if adapters:
        return ("lora",)
    if run.towers and all(tower.trainable in (0, tower.total) for tower in run.towers):
        return ("frozen_tower",)
    # Blocks with frozen and trained parameters are recomputed like blocks with adapters.
    return ("frozen_tower", "lora")


def _models(run: Run) -> tuple[str, ...]:
    traits = (
        ("two_forwards", run.forwards > 1),
        ("per_image", run.repeats == "yes"),
        ("tied", run.shared),
        ("qwen2_vl", run.tower("vision") is not None),
    )
    return ("two_tower", *(name for name, there in traits if there))


def _idle(run: Run) -> tuple[str, ...]:
    """On "possible" nothing is chosen for it: looking for unused parameters rounds otherwise in
    three ranks and more."""
    if run.never_used and run.known("never_used"):
        return ("text",)
    frozen = run.towers and not (run.trained_towers or run.text_skips)
    if run.may_be_unused == "no" or run.pads or frozen:
        return ()
    if run.may_be_unused == "possible" and run.world > 2:
        return ()
    return ("text", "differ", "image_then_text")
