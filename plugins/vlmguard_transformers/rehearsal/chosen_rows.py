"""The rows that a script hands to its Trainer: their kinds, and a choice of them in a set order."""

from __future__ import annotations

import hashlib
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

from vlmguard.rehearse.fixture import NotHere
from vlmguard_torch.media.kinds import kinds_of

MOST = 500
SECONDS = 40.0
"""For which rows are looked at, and after how many of them that limit counts."""
FEWEST = 16


def streamed(rows: Any) -> bool:
    """Whether they have no number and come one after the other."""
    return not hasattr(rows, "__getitem__") or not hasattr(rows, "__len__")


def kinds(rows: Any, collate: Any, shuffled: bool) -> tuple[list[dict[str, Any]], int]:
    """(place and kind of up to `MOST` rows, how many there are; 0 where nobody knows).

    The kind is that of the batch which the Trainer's collator makes of the row alone.

    Raises:
        NotHere: a row cannot be read.
    """
    until = time.monotonic() + SECONDS
    found: list[dict[str, Any]] = []
    for place, row in _some(rows, shuffled):
        if len(found) >= FEWEST and time.monotonic() > until:
            break
        try:
            batch = collate([row() if callable(row) else row])
        except NotHere:
            raise
        except Exception as error:
            told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise NotHere(f"row {place} of its data set cannot be read here: {told}") from error
        found.append({"place": place, "kind": "+".join(kinds_of(batch)) or "text"})
    return found, 0 if streamed(rows) else len(rows)


def _some(rows: Any, shuffled: bool) -> Iterator[tuple[int, Any]]:
    if streamed(rows):
        yield from enumerate(itertools.islice(iter(rows), MOST))
        return
    places = list(range(min(len(rows), MOST)))
    if shuffled and len(rows) > MOST:
        places = random.Random(0).sample(range(len(rows)), MOST)
    for place in places:
        yield place, lambda place=place: same(place, lambda: rows[place])


def same(place: int, make: Any) -> Any:
    """What is drawn at random as a row is made depends on the row alone."""
    from vlmguard_torch.observe.isolated_state import seeded  # imports torch

    with seeded(place):
        return make()


def chosen(rows: Any, places: Sequence[int]) -> Any:
    """The rows at these places, in this order: of the same kind where a Trainer asks for it."""
    if streamed(rows):
        rows = list(itertools.islice(iter(rows), max(places) + 1))
    try:
        import datasets
    except ImportError:
        datasets = None
    if datasets is not None and isinstance(rows, datasets.Dataset):
        return rows.select(list(places))
    return _wrapped(rows, list(places))


def _wrapped(rows: Any, places: list[int]) -> Any:
    import torch

    class Chosen(torch.utils.data.Dataset):  # type: ignore[type-arg]
        """Has what the script's own data set has, but for its rows."""

        def __len__(self) -> int:
            return len(places)

        def __getitem__(self, at: int) -> Any:
            return same(places[at], lambda: rows[places[at]])

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(rows, name)

    return Chosen()


def digest(batch: Any) -> str:
    """Of all tensors of a batch; equal batches have equal ones."""
    told = hashlib.blake2b(digest_size=8)
    for name in sorted(batch.keys()) if hasattr(batch, "keys") else ():
        value = batch[name]
        if hasattr(value, "detach"):
            whole = value.detach().cpu()
            told.update(f"{name}{tuple(whole.shape)}".encode())
            whole = whole.float() if whole.is_floating_point() else whole
            told.update(whole.contiguous().numpy().tobytes())
    return told.hexdigest()
