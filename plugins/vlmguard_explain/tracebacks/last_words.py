"""A rank that ended itself with words, ``sys.exit("…")``: its last line is all that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vlmguard_explain.lazy import patterns
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.run import launcher

if TYPE_CHECKING:
    from vlmguard_explain.run.digest import Digest

_P = patterns("lines.last_words")


def words(ranks: set[int | None], digests: Sequence[Digest]) -> Line | None:
    """The last line of the rank that ended first, by code 1, where it left nothing else.

    ``ranks``: those that left an exception or a telling line. Only a rank's own stream tells.
    """
    ended = launcher.first([e for d in digests for e in d.exits])
    if ended is None or ended.code != 1 or ended.rank is None or ended.rank in ranks:
        return None
    finals = [d.finals[ended.rank] for d in digests if ended.rank in d.finals]
    if len(finals) != 1 or _P.anyway.search(finals[0].text):
        return None
    here = finals[0].source == ended.line.source
    return None if here and finals[0].at > ended.line.at else finals[0]
