"""Which ranks' parts of a checkpoint are still being written, by DeepSpeed's lines of each file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.explain.digest import Digest

_PART = re.compile(
    r"\[Torch\] (Sav(?:ing|ed)) (\S{1,300}?/zero_pp_rank_(\d{1,6})_mp_rank_\d{1,4}_\w{1,40}\.pt)"
)


def parts(digests: Sequence[Digest]) -> tuple[dict[str, int], dict[str, int]]:
    """File → rank, of those that were begun and of those that were finished."""
    begun: dict[str, int] = {}
    ended: dict[str, int] = {}
    lines = (line for d in digests for some in d.recent.values() for line in some)
    for line in lines:
        for match in _PART.finditer(line.raw):
            (begun if match[1] == "Saving" else ended)[match[2]] = int(match[3])
    return begun, ended


def unsaved(digests: Sequence[Digest]) -> tuple[int, ...]:
    """Ranks that began and did not end, where others did both."""
    begun, ended = parts(digests)
    left = {rank for name, rank in begun.items() if name not in ended}
    return tuple(sorted(left)) if ended and len(left) < len(begun) else ()


def all_saved(digests: Sequence[Digest]) -> bool:
    """Whether all that was begun is written: who waits then waits for another rank, not a disk."""
    begun, ended = parts(digests)
    return len(begun) > 1 and begun.keys() <= ended.keys()
