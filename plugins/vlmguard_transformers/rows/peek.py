"""What kinds of rows a data set of the user's own holds, where no columns tell: by collating a few.

A row alone need not say what it holds (scripts decode in the collator), a batch does. Nothing is
kept of it: random states are put back, and the data set's object is a copy.
"""

from __future__ import annotations

import copy
import time
from typing import Any

from vlmguard_torch.layout import towers
from vlmguard_torch.media.kinds import kinds_of, untold
from vlmguard_torch.observe.isolated_state import random_kept

ROWS, SECONDS = 16, 3.0


def kinds(trainer: Any, dataset: Any) -> frozenset[str] | None:
    """Kinds of rows ("image", "image+video", "text"), if all rows or two kinds were seen; else
    None: those not looked at may be of another kind.

    A few rows are looked at. If they all are text, the others are looked at too, as far as the
    time allows: such rows are cheap, and if all are text, no blank input is wanted.

    A data set or a collator that raises is the user's own: then nothing is known.
    """
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return None
    if trainer.args.world_size < 2 or not towers.seeing(trainer.model):
        return None  # nothing hangs on it
    rows = copy.copy(dataset)
    few = _spread(len(rows))
    rest = sorted(set(range(len(rows))).difference(few))
    found: set[str] = set()
    seen, end = 0, time.monotonic() + SECONDS
    with random_kept(trainer.model):
        for number in (*few, *rest):
            if time.monotonic() > end or (seen >= len(few) and found != {"text"}):
                break
            try:
                batch = trainer.data_collator([rows[number]])
                if untold(batch):
                    return None
                found.add("+".join(kinds_of(batch)))
            except Exception:
                return None
            seen += 1
    found.discard("")
    return frozenset(found) if seen == len(rows) or len(found) > 1 else None


def _spread(count: int) -> list[int]:
    """Up to `ROWS` row numbers: the first ones, where batches begin, and some over the rest."""
    first = range(min(count, ROWS // 2))
    step = max(1, count // (ROWS // 2))
    return sorted({*first, *range(0, count, step)})[:ROWS]
