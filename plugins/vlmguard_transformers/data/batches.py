"""A batch as a trainer or loop hands it to its model → `Batch`. Keys and shapes alone: it may lie
on a device, and no tensor is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlmguard import guard, registry
from vlmguard.core.facts import Batch, Phase
from vlmguard.core.runstate import RunState
from vlmguard_torch.media.kinds import kinds_of

HEARS = "hears batches"
"""Whether `hear` is to judge this run's batches: some frameworks' adapters hear them as rows."""


def hear(state: RunState, inputs: Any) -> None:
    """Judge a batch, for what ``state`` is doing. Raises `Stop` where going on would be wrong."""
    if state.run is None or not state.kept.get(HEARS, True):
        return
    if registry.get().asks(state.run.framework, batch=True):
        guard.pre_step(state, batch=of(inputs, state.phase))


def of(inputs: Any, phase: Phase) -> Batch:
    """Facts about the inputs of a step: a mapping of tensors, or anything."""
    return Batch(kinds=kinds_of(inputs), shapes=dict(_shapes(inputs)), phase=phase)


def _shapes(inputs: Any, prefix: str = "") -> list[tuple[str, tuple[int, ...]]]:
    """Of each tensor, by its key; one in an inner mapping by both keys, with a dot."""
    if not isinstance(inputs, Mapping):
        return []
    found: list[tuple[str, tuple[int, ...]]] = []
    for key, value in inputs.items():
        if isinstance(value, Mapping):
            found += _shapes(value, f"{prefix}{key}.")
        elif hasattr(value, "shape"):
            found.append((f"{prefix}{key}", tuple(value.shape)))
    return found
