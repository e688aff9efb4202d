"""What the own log of a rank that never came holds, where each rank has a file of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.explain.digest import Digest
from vlmguard.explain.lines import Line

_SHOWN = re.compile(r"\s{1,8}[\w.]{1,60}\($|\s{0,8}$")  # the line of code that a warning shows


def each_its_own(digests: Sequence[Digest]) -> bool:
    """Whether the logs that were given are files of single ranks."""
    return len({d.source.rank for d in digests} - {None}) > 1


def own_logs(rank: int, digests: Sequence[Digest]) -> list[Digest]:
    """The files of this rank: standard output and error apart, as torchrun writes them."""
    return [d for d in digests if d.source.rank == rank]


def last_words(rank: int, digests: Sequence[Digest]) -> Line | None:
    """The last line of the rank's own file; None where it is empty or not there."""
    said = (line for d in own_logs(rank, digests) for some in d.recent.values() for line in some)
    telling = (line for line in said if not _SHOWN.match(line.raw))
    return max(telling, key=lambda line: (line.time or (), line.at), default=None)


def told(rank: int, digests: Sequence[Digest]) -> str:
    """The same as a row of the answer's table, without the line itself."""
    if not own_logs(rank, digests):
        return f"rank {rank} has no file here: give its log as well"
    if last_words(rank, digests) is None:
        return f"rank {rank}'s own log is empty"
    return f"rank {rank}'s own log ends with"
