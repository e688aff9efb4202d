"""Memory that all ranks of a run see: large tensors lie in it while a call is carried out.

The process that forks the ranks opens one store for each; a rank writes to its own and reads from
all. Through the coordinator goes only where they lie: its pipes copied a tensor a dozen times.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEAST = 32 << 10
"""Bytes from which a tensor is worth a mapping."""
_PAGE = mmap.ALLOCATIONGRANULARITY

Place = tuple[int, int, int]
"""(rank, offset, bytes)."""


def opened(ranks: int, scratch: Path) -> list[int]:
    """A file of no disk for each rank, where the system has such; forked ranks inherit them."""
    if hasattr(os, "memfd_create"):
        return [os.memfd_create("vlmguard-tensors") for _ in range(ranks)]
    return [os.open(scratch / f"store{rank}", os.O_RDWR | os.O_CREAT) for rank in range(ranks)]


def closed(files: Sequence[int]) -> None:
    """The forking process keeps none: they go with the last rank."""
    for file in files:
        with contextlib.suppress(OSError):
            os.close(file)


@dataclass
class TensorStore:
    """A rank's side.

    Attributes:
        files: of all ranks.
        taken: offset → (end, group): what other ranks may still read.
    """

    rank: int
    files: Sequence[int]
    taken: dict[int, tuple[int, int]] = field(default_factory=dict)

    def put(self, raw: Any, group: int) -> Place:
        """Write bytes where nothing else lies. group: whose call they belong to."""
        size = len(raw)
        begin = 0
        for offset in sorted(self.taken):
            if offset - begin >= size:
                break
            begin = max(begin, self.taken[offset][0])
        end = begin + -(-size // _PAGE) * _PAGE
        self.taken[begin] = (end, group)
        written = 0
        while written < size:
            written += os.pwrite(self.files[self.rank], raw[written:], begin + written)
        return self.rank, begin, size

    def read(self, place: Place) -> mmap.mmap:
        """Another rank's bytes (or this one's), not copied. Not to be written to."""
        rank, offset, size = place
        populate = getattr(mmap, "MAP_POPULATE", 0)
        return mmap.mmap(self.files[rank], size, mmap.MAP_SHARED | populate, offset=offset)

    def held(self, group: int) -> list[int]:
        """What lies here for ``group``: nobody reads it any more once all of its members have
        come to its next call."""
        return [offset for offset, (_, owner) in self.taken.items() if owner == group]

    def free(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            del self.taken[offset]
