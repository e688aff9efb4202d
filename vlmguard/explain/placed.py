"""Where a rank failed, how long the run had to go, whether its log is cut: of whole logs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.explain.digest import Digest
from vlmguard.explain.lines import Line

# torchrun's table of what failed: machine, rank of all, rank of the machine.
_FAILED = re.compile(
    r"(?m)^(?:\S{1,8}: )? {2}host {6}: ([\w.-]{1,60})$\s(?:\S{1,8}: )? {2}rank {6}: (\d{1,6}) "
    r"\(local_rank: (\d{1,4})\)$"
)
_ADDRESS = re.compile(
    r"\[?(?!rank)((?:\d{1,3}\.){3}\d{1,3}|[A-Za-z][\w-]{0,30}\d[\w.-]{0,30})\]?:?"
)
_TIMES = re.compile(r"\[(\d{1,3}(?::\d\d){1,2})<(\d{1,3}(?::\d\d){1,2}),")
# A line that its program writes whole, and that ends before its end.
_CUT = re.compile(r"(?:\d{1,3}%\|[^|]{0,300}\| {0,8}\d{1,9}(?:/\d{0,9})?|\{'loss': [^}]{0,300})$")
_STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z ")


def machine(rank: int | None, line: Line | None, digests: Sequence[Digest]) -> dict[str, str]:
    """The machine on which a rank failed: torchrun's table, or the name before the line."""
    rows = [row for d in digests for row in _FAILED.findall(d.text)]
    hosts = {host for host, _, _ in rows}
    own = next(
        ((host, local) for host, of, local in rows if rank is not None and int(of) == rank), None
    )
    lane = _ADDRESS.fullmatch(line.lane.strip()) if line is not None else None
    if own is None:
        return {"node": lane[1], "onenode": lane[1]} if lane is not None else {}
    one = {"onenode": own[0]} if len(hosts) > 1 else {}
    return {"node": own[0], "localrank": own[1], **one}


def together(absent: Sequence[int], digests: Sequence[Digest]) -> bool:
    """Whether the ranks that never came are of the one machine whose launcher wrote this log."""
    rows = _FAILED.findall(digests[0].text) if len(digests) == 1 else []
    return bool(rows and absent) and any(
        rank == local and int(rank) > max(absent) for _, rank, local in rows
    )


def times(digests: Sequence[Digest]) -> dict[str, str]:
    """How long the run took and how long it had to go, by its own bar's last line."""
    for digest in digests:
        lines = (*digest.progress.clocks, digest.progress.last)
        for line in reversed([one for one in lines if one is not None]):
            if found := _TIMES.search(line.raw):
                return {"took": found[1], "left": found[2]}
    return {}


def cut(digests: Sequence[Digest]) -> Line | None:
    """A log's last line that stops in its middle: it was copied while it was written."""
    for digest in digests:
        final, last = digest.progress.final, digest.progress.last
        if last is not None and final is not None and _CUT.search(final.raw.rstrip()):
            return final
    return None


def stamped(line: Line) -> bool:
    """Whether a cluster's log driver put the time in front."""
    return _STAMPED.match(line.raw.lstrip()) is not None
