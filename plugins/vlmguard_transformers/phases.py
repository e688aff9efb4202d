"""What a batch is for. A collator does not say, and runs in a worker ahead of time: the loaders of
evaluation are marked, and mark the batches that they make."""

from __future__ import annotations

from typing import Any

from vlmguard.core import runstate
from vlmguard.core.facts import Phase

_collating: list[Phase] = []


class InPhase:
    """A collate function that says what its batches are for. Pickles as what it holds does."""

    def __init__(self, collate: Any, phase: Phase) -> None:
        self.collate, self.phase = collate, phase

    def __call__(self, rows: Any) -> Any:
        _collating.append(self.phase)
        try:
            return self.collate(rows)
        finally:
            _collating.pop()


def mark(loader: Any, phase: Phase) -> None:
    """Have every batch of ``loader`` be of ``phase``."""
    collate = getattr(loader, "collate_fn", None)
    if collate is not None and not isinstance(collate, InPhase):
        loader.collate_fn = InPhase(collate, phase)


def current() -> Phase:
    """The phase of the batch that is being collated, else of what this process does."""
    if _collating:
        return _collating[-1]
    state = runstate.current()
    return state.phase if state is not None else "train"
