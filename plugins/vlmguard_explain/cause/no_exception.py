"""Logs without an exception: what exit codes and losses tell; finished, or just ended."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard_explain.cause.candidates import Answer, Candidate, found, launchers, survived
from vlmguard_explain.lazy import patterns
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.match.catalogue import Known, by_code
from vlmguard_explain.run import endings
from vlmguard_explain.run.digest import Digest

_P = patterns("cause.no_exception")

FIRST = "torchrun's first observed failure"


def by_exit(digests: Sequence[Digest], whatever: bool = False) -> Answer | None:
    """A process that was killed leaves no exception: its exit code is what there is.

    ``whatever``: of one that left no word, and no code that tells, the end that a launcher saw.
    """
    ended = _first(digests)
    known = by_code().get(endings.BY_EXIT.get(ended.code, "")) if ended is not None else None
    if ended is None or (known is None and not whatever):
        return None
    # On one node a local rank is the rank.
    rank = ended.rank if ended.rank is not None or nodes(digests) else ended.local
    how = FIRST if ended.first else "its exit code" if known else ""
    ranks = () if rank is None else (rank,)
    answer = found(Candidate(known, ended.line, None, ended.rank), ranks, how)
    answer.code = ended.code if whatever else None
    return answer


def _first(digests: Sequence[Digest]) -> endings.Exit | None:
    """The first end of a process that the run did not outlive, nor came when it was over."""
    ends = [
        e
        for d in digests
        for e in d.exits
        if not survived(e.line.at - 1, d) and not (e.code == -15 and d.progress.over(e.line.at))
    ]
    return endings.first(ends) or next(iter(ends), None)


def nodes(digests: Sequence[Digest]) -> bool:
    """Whether the run has several nodes: a rank on its node is then no rank."""
    return any(_P.several.search(d.text) for d in digests)


def verdict(digests: Sequence[Digest]) -> Answer:
    """The first of these that the logs show; at last that they just end."""
    return (
        by_exit(digests)
        or no_numbers(digests)
        or by_exit(digests, whatever=True)
        or _unlabelled(digests)
        or _launchers_word(digests)
        or _end(digests)
    )


def no_numbers(digests: Sequence[Digest]) -> Answer | None:
    """Losses that were no numbers to the last: whoever ended the run then ended a lost one."""
    for told in (d.progress for d in digests if d.progress.broken):
        return _logged(by_code()["VG515"], [line for line, _ in told.losses[-told.broken :]])
    return None


def _unlabelled(digests: Sequence[Digest]) -> Answer | None:
    """Losses of 0.0 from the first step on, in every log that has a loss."""
    told = [d.progress for d in digests if d.progress.zeros or d.progress.sound]
    if not told or not all(progress.unlabelled for progress in told):
        return None
    return _logged(by_code()["VG593"], told[0].zeros)


def _logged(known: Known, lines: Sequence[Line]) -> Answer:
    """A failure that no rank names: its lines of the log show it, the first and the last."""
    answer = found(Candidate(known, lines[0], None, lines[0].rank), how="the logged losses")
    answer.evidence = [lines[0], lines[-1]]
    return answer


def _launchers_word(digests: Sequence[Digest]) -> Answer | None:
    """A launcher's exception, where the log does not hold what it was raised for."""
    for event, digest in ((e, d) for d in digests for e in reversed(d.events)):
        left = event.type.endswith("SystemExit") or survived(event.at, digest)
        if launchers(event) and not left:
            return found(Candidate(None, event.line, event, event.rank))
    return None


def _end(digests: Sequence[Digest]) -> Answer:
    if any(d.progress.done for d in digests):
        ends = [d.progress.end for d in digests if d.progress.end is not None]
        return Answer("finished", evidence=ends[-1:])
    finals = {(d.number, -1 if r is None else r): x for d in digests for r, x in d.finals.items()}
    return Answer("unfinished", evidence=[finals[key] for key in sorted(finals)][:64])
