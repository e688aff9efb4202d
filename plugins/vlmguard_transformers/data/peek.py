"""What kinds of rows a data set of the user's own holds, where no columns tell: by collating a few.

A row alone need not say what it holds (scripts decode in the collator), a batch does. Afterwards
all is as before: random states are put back, and what a collator or a data set of the user's own
counts, collects or draws from. Where that cannot be, as with an iterator, nothing is looked at.
"""

from __future__ import annotations

import copy
import time
from typing import Any

from vlmguard_torch.layout import towers
from vlmguard_torch.media.kinds import kinds_of, untold
from vlmguard_torch.observe.reached import untouched

ROWS, SECONDS = 16, 3.0


def kinds(trainer: Any, dataset: Any) -> frozenset[str] | None:
    """Kinds of rows ("image", "image+video", "text"), if all rows or two kinds were seen; else
    None: those not looked at may be of another kind.

    A few rows are looked at. If they all are text, the others are looked at too, as far as the
    time allows: such rows are cheap, and if all are text, no blank input is wanted.

    A data set or a collator that raises is the user's own: then nothing is known.
    """
    told = _look(trainer, dataset)
    if told is None:
        return None
    found = frozenset(told.values()) - {""}
    return found if len(told) == len(dataset) or len(found) > 1 else None


def in_order(trainer: Any, dataset: Any) -> list[str] | None:
    """The kind of each row; None if there was no time for all."""
    told = _look(trainer, dataset, every=True)
    return [told[row] for row in sorted(told)] if told and len(told) == len(dataset) else None


def some(trainer: Any, dataset: Any) -> list[str] | None:
    """Kinds of the rows that are looked at; None if nothing is known."""
    told = _look(trainer, dataset)
    return None if told is None else list(told.values())


def _look(trainer: Any, dataset: Any, every: bool = False) -> dict[int, str] | None:
    """Rows that were looked at, with their kinds; None if nothing is known of them. ``every``: as
    many as the time allows, whatever they are."""
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return None
    if trainer.args.world_size < 2 or not _sees(trainer.model):
        return None  # the answer would change nothing
    with untouched(trainer.model, (trainer.data_collator, dataset)) as can_be:
        return _collated(trainer.data_collator, copy.copy(dataset), every) if can_be else None


def _sees(model: Any) -> bool:
    """Whether it has a tower. Most have one by name: what looks for others is imported here."""
    if towers.seeing(model):
        return True
    from vlmguard_torch.layout import by_structure

    return by_structure.sees(model)


def _collated(collate: Any, rows: Any, every: bool) -> dict[int, str] | None:
    few = _spread(len(rows))
    rest = (number for number in range(len(rows)) if number not in few)
    told: dict[int, str] = {}
    found: set[str] = set()
    end = time.monotonic() + SECONDS
    for number in (*few, *rest):
        enough = not every and len(told) >= len(few) and found != {"text"}
        if time.monotonic() > end or enough:
            break
        try:
            batch = collate([rows[number]])
            if untold(batch):
                return None
            told[number] = "+".join(kinds_of(batch))
            found.add(told[number])
        except Exception:
            return None
    return told


def _spread(count: int) -> list[int]:
    """Up to `ROWS` row numbers: the first ones, where batches begin, and some over the rest."""
    first = range(min(count, ROWS // 2))
    step = max(1, count // (ROWS // 2))
    return sorted({*first, *range(0, count, step)})[:ROWS]
