"""The rows that a script hands to its Trainer: their kinds, and a choice of them in a set order."""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
import re
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlmguard.rehearse.fixture import NotHere
from vlmguard_torch.media.kinds import kinds_of

MOST = 500
SECONDS = 40.0
"""For which rows are looked at, and after how many of them that limit counts."""
FEWEST = 16
LONGER, ALL = 10.0, 20_000
"""Seconds after which no row is looked at beyond `MOST`, and how many are at most."""


def streamed(rows: Any) -> bool:
    """Whether they have no number and come one after the other."""
    return not hasattr(rows, "__getitem__") or not hasattr(rows, "__len__")


def kinds(rows: Any, collate: Any, shuffled: bool) -> tuple[list[dict[str, Any]], int]:
    """(place and kind of up to `MOST` rows, how many there are; 0 where nobody knows).

    The kind is that of the batch which the Trainer's collator makes of the row alone. Where rows
    are made quickly, more of them are looked at.

    Raises:
        NotHere: a row cannot be read.
    """
    begun = time.monotonic()
    found: list[dict[str, Any]] = []
    for place, row in _some(rows, shuffled):
        spent = time.monotonic() - begun
        if spent > (SECONDS if len(found) < MOST else LONGER) and len(found) >= FEWEST:
            break
        try:
            batch = collate([row() if callable(row) else row])
        except NotHere:
            raise
        except Exception as error:
            told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise NotHere(f"row {place} of its data set cannot be read here: {told}") from error
        found.append({"place": place, "kind": _kind(batch)})
    return found, 0 if streamed(rows) else len(rows)


def _kind(batch: Any) -> str:
    """Also by what stands in its parts: a query and its passages."""
    parts = [part for part in getattr(batch, "values", tuple)() if isinstance(part, Mapping)]
    media = {kind for part in (batch, *parts) for kind in kinds_of(part)} - {"text"}
    return "+".join(sorted(media)) or "text"


def _some(rows: Any, shuffled: bool) -> Iterator[tuple[int, Any]]:
    if streamed(rows):
        yield from enumerate(itertools.islice(iter(rows), MOST))
        return
    places = list(range(min(len(rows), ALL)))
    if shuffled:
        places = random.Random(0).sample(range(len(rows)), len(places))
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
        return _stream(rows, places)
    if any(kind.__module__ == "datasets.arrow_dataset" for kind in type(rows).__mro__):
        return rows.select(list(places))
    return _wrapped(rows, list(places))


def _stream(rows: Any, places: Sequence[int]) -> Any:
    """They come one after the other, as the script's do."""
    import torch

    first = list(itertools.islice(iter(rows), max(places) + 1))

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[Any]:
            yield from (first[place] for place in places)

    return Stream()


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
    """Of all tensors of a batch, also in parts of it; equal batches have equal ones."""
    told = hashlib.blake2b(digest_size=8)
    for name, value in _tensors(batch, ""):
        whole = value.detach().cpu()
        told.update(f"{name}{tuple(whole.shape)}".encode())
        whole = whole.float() if whole.is_floating_point() else whole
        told.update(whole.contiguous().numpy().tobytes())
    return told.hexdigest()


def _tensors(part: Any, name: str) -> Iterator[tuple[str, Any]]:
    if hasattr(part, "detach"):
        yield name, part
    elif hasattr(part, "keys"):
        for key in sorted(part.keys(), key=str):
            yield from _tensors(part[key], f"{name}{key}")
    elif isinstance(part, (list, tuple)):
        for at, each in enumerate(part):
            yield from _tensors(each, f"{name}{at}")


def of_the_rows_alone(collate: Any) -> Any:
    """What is drawn at random as a batch is made depends on its rows alone."""
    if hasattr(collate, "of_the_rows_alone"):
        return collate

    @functools.wraps(collate, updated=())
    def collated(rows: Any) -> Any:
        told = re.sub(r"0x[0-9a-f]+", "", repr(rows))
        return same(zlib.crc32(told.encode()), lambda: collate(rows))

    collated.of_the_rows_alone = True  # type: ignore[attr-defined]
    return collated
