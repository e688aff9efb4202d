"""What the exit codes of processes tell, where they said nothing themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.explain import launcher
from vlmguard.explain.answer import Answer
from vlmguard.explain.candidates import Candidate, survived
from vlmguard.explain.digest import Digest
from vlmguard.explain.failure import Known

BY_EXIT = {
    -9: "VG532",
    137: "VG532",
    -11: "VG558",
    139: "VG558",
    -8: "VG558",
    136: "VG558",
    -4: "VG558",
    132: "VG558",
    -7: "VG543",
    135: "VG543",
    -1: "VG569",
    -2: "VG569",
    129: "VG569",
    130: "VG569",
    -15: "VG569",
    143: "VG569",
}
_SEVERAL = re.compile(r"(?i)nnodes[ =:'\"]{1,4}(?:[2-9]\b|[1-9]\d)")


def by_exit(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """A process that was killed leaves no exception: its exit code is what there is."""
    found = [e for d in digests for e in d.exits if not survived(e.line.at - 1, d, digests)]
    over = [e for d in digests for e in d.exits if e.code == -15 and d.progress.over(e.line.at)]
    found = [e for e in found if e not in over]
    ended = (
        launcher.first(found)
        or next((e for e in found if e.code in BY_EXIT and e.code not in (-15, 143)), None)
        or next(iter(found), None)
    )
    code = BY_EXIT.get(ended.code) if ended is not None else None
    if ended is None or code is None or code not in by_code:
        return None
    pick = Candidate(by_code[code], ended.line, None, ended.rank)
    rank = ended.rank if ended.rank is not None or nodes(digests) else ended.local
    ranks = () if rank is None else (rank,)
    how = "torchrun's first observed failure" if ended.first else "its exit code"
    return Answer("explained", by_code[code], pick, ranks, how, evidence=[ended.line])


def nodes(digests: Sequence[Digest]) -> bool:
    """Whether the run has several nodes: a rank on its node is then no rank."""
    return any(_SEVERAL.search(d.text) for d in digests)
