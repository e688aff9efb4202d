"""A rank that ended itself with words, ``sys.exit("…")``: its last line is all that it leaves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vlmguard.explain import launcher
from vlmguard.explain.lines import Line

if TYPE_CHECKING:
    from vlmguard.explain.digest import Digest

# What a run, a library or a launcher prints anyway: no word of farewell.
_ANYWAY = re.compile(
    r"%\||\bloss\b|\bINFO\b|\bDEBUG\b|WARN|Warning|warn|NCCL|\[c10d\]|wandb|^[\d\W]*$|it/s"
    r"|^\s{2,}|^[{\[(]|elastic|Traceback|vlmguard|^[*=#+-]{3}|step"
)


def words(ranks: set[int | None], digests: Sequence[Digest]) -> Line | None:
    """The last line of the rank that ended first, by code 1, where it left nothing else.

    ``ranks``: those that left an exception or a telling line. Only a rank's own stream tells.
    """
    ended = launcher.first([e for d in digests for e in d.exits])
    if ended is None or ended.code != 1 or ended.rank is None or ended.rank in ranks:
        return None
    finals = [d.finals[ended.rank] for d in digests if ended.rank in d.finals]
    if len(finals) != 1 or _ANYWAY.search(finals[0].text):
        return None
    said, told = finals[0], ended.line
    return said if said.source != told.source or said.at < told.at else None
