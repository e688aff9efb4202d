"""What the exit codes of processes tell, where these said nothing themselves."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard_explain.cause.answer import Answer, found
from vlmguard_explain.cause.candidates import Candidate, survived
from vlmguard_explain.lazy import patterns
from vlmguard_explain.match.catalogue import Known
from vlmguard_explain.run import launcher
from vlmguard_explain.run.digest import Digest

_P = patterns("cause.exit_codes")

_OF = {  # exit codes, or minus a signal's number
    "VG532": (-9, 137),
    "VG558": (-11, 139, -8, 136, -4, 132),
    "VG543": (-7, 135),
    "VG569": (-1, -2, 129, 130, -15, 143),
}
BY_EXIT = {code: known for known, codes in _OF.items() for code in codes}
_CRASHED = ("VG532", "VG558", "VG543")
FIRST = "torchrun's first observed failure"


def by_exit(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """A process that was killed leaves no exception: its exit code is what there is."""
    ended = _first(digests)
    known = by_code.get(BY_EXIT.get(ended.code, "")) if ended is not None else None
    return _answer(ended, known, digests) if ended is not None and known is not None else None


def by_any_exit(digests: Sequence[Digest]) -> Answer | None:
    """The end that a launcher saw of a process that left no word and no code that tells."""
    ended = _first(digests)
    answer = _answer(ended, None, digests) if ended is not None else None
    if answer is not None and ended is not None:
        answer.code = ended.code
    return answer


def crashed(ended: launcher.Exit | None) -> bool:
    """Whether a signal ended it that says of itself why."""
    return ended is not None and BY_EXIT.get(ended.code) in _CRASHED


def _first(digests: Sequence[Digest]) -> launcher.Exit | None:
    """The first end of a process that the run did not outlive, nor came when it was over."""
    ends = [
        e
        for d in digests
        for e in d.exits
        if not survived(e.line.at - 1, d) and not (e.code == -15 and d.progress.over(e.line.at))
    ]
    telling = (e for e in ends if e.code in BY_EXIT and e.code not in (-15, 143))
    return launcher.first(ends) or next(telling, None) or next(iter(ends), None)


def _answer(ended: launcher.Exit, known: Known | None, digests: Sequence[Digest]) -> Answer:
    # A rank of its node is a rank where there is one node.
    rank = ended.rank if ended.rank is not None or nodes(digests) else ended.local
    how = FIRST if ended.first else "its exit code" if known else ""
    ranks = () if rank is None else (rank,)
    return found(Candidate(known, ended.line, None, ended.rank), ranks, how)


def nodes(digests: Sequence[Digest]) -> bool:
    """Whether the run has several nodes: a rank on its node is then no rank."""
    return any(_P.several.search(d.text) for d in digests)
