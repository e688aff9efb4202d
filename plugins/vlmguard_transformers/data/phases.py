"""What a batch is for. A collator does not say, and runs in a worker ahead of time: the loaders of
evaluation are marked, and what they iterate with marks the batches.

Nothing is put in a place where the user looks: a loader keeps its collator. The iterator that it
makes, and the workers that this starts, get it wrapped.
"""

from __future__ import annotations

import threading
import types
from typing import Any

from vlmguard.core.facts import Phase
from vlmguard.core.runstate import RunState
from vlmguard.runtime.faults import contain

_collating = threading.local()
"""By thread: two runs may collate at once."""
_ITERATOR = "_get_iterator"
"""What torch's `DataLoader` makes its iterators by, once an epoch."""


class InPhase:
    """A collate function that says what its batches are for. Pickles as what it holds does."""

    def __init__(self, collate: Any, phase: Phase) -> None:
        self.collate, self.phase = collate, phase

    def __call__(self, rows: Any) -> Any:
        before = getattr(_collating, "phase", None)
        _collating.phase = self.phase
        try:
            return self.collate(rows)
        finally:
            _collating.phase = before


def mark(loader: Any, phase: Phase) -> None:
    """Have every batch of ``loader`` be of ``phase``; accelerate's hold torch's."""
    loader = vars(loader).get("base_dataloader", loader)
    made = vars(loader).get(_ITERATOR)
    if hasattr(type(loader), _ITERATOR) and (made is None or hasattr(made, "phase")):
        setattr(loader, _ITERATOR, types.MethodType(_iterating(phase), loader))


def _iterating(phase: Phase) -> Any:
    """A loader's method; a copy of the loader gets its own, a pickled one its class's."""

    def method(self: Any) -> Any:
        collate = self.collate_fn
        self.collate_fn = contain("marking a batch", InPhase, collate, phase) or collate
        try:
            return getattr(type(self), _ITERATOR)(self)
        finally:
            self.collate_fn = collate

    method.__name__ = _ITERATOR  # a bound method is pickled by its function's name
    vars(method)["phase"] = phase
    return method


def of(state: RunState | None) -> Phase:
    """The phase of the batch that this thread collates, else of what its run does."""
    marked: Phase | None = getattr(_collating, "phase", None)
    return marked or (state.phase if state is not None else "train")
