"""Which candidate started it: a cause before a wait, a lost peer, an end from outside; then
torchrun's "first observed failure", the place in one log, clocks that agree, else "one of ranks …".
"""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard_explain.cause.candidates import Answer, Candidate, found
from vlmguard_explain.cause.no_exception import FIRST, by_exit, nodes
from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.run import endings, watchdog
from vlmguard_explain.run.digest import Digest

_P = patterns("cause.root")
_T = words("cause.root")

_FROM_BELOW = ("VG532", "VG534", "VG543")  # a kernel reports it for a process or card
_ENGINE, _HUB = "VG566", "VG539"
_CAUGHT = ("VG552", "VG540", "VG590")  # often caught: not the cause if another failure follows
_ABORTED = (-6, 134)


def started(
    candidates: list[Candidate],
    digests: Sequence[Digest],
    ended: endings.Exit | None,
) -> Answer | None:
    """The answer, or None where no candidate is left."""
    candidates = _strong(candidates)
    if not candidates:
        return None
    lowest = min(c.order for c in candidates)
    some = [c for c in candidates if c.order == lowest]
    if lowest and (seen := _silent(some, lowest, digests, ended)) is not None:
        return seen
    pick, how, sure = _first(_by_who_ended_it(some), ended)
    ranks = _ranks(pick, some, ended, sure) or _of_others(pick, candidates, digests)
    answer = found(pick, ranks, how, sure)
    alike = {c.rank for c in candidates if c.key == pick.key and c.rank is not None}
    answer.alike = tuple(sorted(alike))
    answer.followed = _followed(pick, candidates, digests)
    return answer


def _strong(candidates: list[Candidate]) -> list[Candidate]:
    """Without what is noise beside a stronger candidate."""
    known = [c for c in candidates if c.known and c.order <= 1]
    if any(c.whole and c.order == 0 for c in known):
        candidates = [c for c in candidates if c.whole]
    if any(c.order == 0 and c.code != _ENGINE for c in known):
        candidates = [c for c in candidates if c.code != _ENGINE]
    latest = max((c.at for c in candidates if c.order <= 1 and not _weak(c)), default=-1)
    return [c for c in candidates if not _weak(c) or c.at > latest]


def _weak(candidate: Candidate) -> bool:
    """A hub's refusal is no end where the files are there; what is unmarked may be caught."""
    bare = candidate.event is None and candidate.code in (_ENGINE, _HUB)
    return bare or (candidate.code in _CAUGHT and not candidate.line.marked)


def _silent(
    some: Sequence[Candidate],
    order: int,
    digests: Sequence[Digest],
    ended: endings.Exit | None,
) -> Answer | None:
    """The process that a signal ended, where the others only waited for it or lost it."""
    heard = {c.rank for c in some}
    other = ended is not None and ended.rank is not None and ended.rank not in heard
    if order == 1:
        return by_exit(digests) if other and endings.crashed(ended) and heard != {None} else None
    if order == 2 and other and ended is not None and ended.code in _ABORTED:
        return by_exit(digests, whatever=True)
    return by_exit(digests)


def _by_who_ended_it(some: list[Candidate]) -> list[Candidate]:
    """A kernel's or scheduler's own word on an end goes before what the ended programs said.

    "Killed for memory" explains a worker that is gone and whatever its parent raised; "time limit"
    says why a job was deleted, a driver's Xid why a CUDA call failed.
    """
    said = {c.code for c in some if c.known is not None and c.event is None}
    codes = {c.code for c in some}
    known = ((word, {word, *beside}) for word, beside in _T.words.items())
    word = next((word for word, fits in known if word in said and codes <= fits), "")
    return [c for c in some if c.code == word] if word else some


def _first(some: list[Candidate], ended: endings.Exit | None) -> tuple[Candidate, str, bool]:
    """The first of them, how that is known, and whether it is sure."""
    if ended is not None and ended.rank is not None:
        code = endings.BY_EXIT.get(ended.code)
        below = [c for c in some if c.event is None and c.rank is None and c.code == code]
        if own := below or [c for c in some if c.rank == ended.rank]:
            return min(own, key=lambda c: c.at), FIRST, True
    if len({c.line.source for c in some}) == 1:
        return min(some, key=lambda c: c.at), FIRST if ended else "its place in the log", True
    timed = [c for c in some if c.time is not None]
    again = {(c.key, c.line.source) for c in timed}
    if all(c.time is not None or (c.key, c.line.source) in again for c in some):
        return min(timed, key=lambda c: c.time or ()), "the ranks' clocks", True
    known = [c for c in some if c.known] or some
    pick = min(known, key=lambda c: (c.line.source, c.at))
    return pick, "", len({c.rank for c in known}) == 1


def _ranks(
    pick: Candidate, some: list[Candidate], ended: endings.Exit | None, sure: bool
) -> tuple[int, ...]:
    if not sure:
        return tuple(sorted({c.rank for c in some if c.rank is not None}))
    rank = ended.rank if pick.rank is None and ended is not None else pick.rank
    return () if rank is None else (rank,)


def _of_others(
    pick: Candidate, candidates: list[Candidate], digests: Sequence[Digest]
) -> tuple[int, ...]:
    """The rank of an exception that bears none: another line of the same failure, a launcher."""
    same = {c.rank for c in candidates if c.key == pick.key} - {None}
    if not same and pick.event is None and pick.code in _FROM_BELOW:
        same = {c.rank for c in candidates if c.order <= 1} - {None}
    ends = [e for d in digests for e in d.exits if e.code not in (-15, -6)]
    local = {e.local for e in ends if e.code > 0 and not nodes(digests)} - {None}
    cut = {e.rank for d in digests for e in d.events if not e.type} - {None}
    ranks = same if len(same) == 1 else {e.rank for e in ends} - {None} or local or cut
    return tuple(r for r in ranks if r is not None) if len(ranks) == 1 else ()


def _followed(pick: Candidate, candidates: list[Candidate], digests: Sequence[Digest]) -> list[str]:
    """The other failures with their ranks, and how many processes a signal ended."""
    others: dict[str, set[int]] = {}
    for c in candidates:
        if c.key != pick.key:
            name = c.known.title if c.known else c.event.type if c.event else "an unknown failure"
            others.setdefault(name, set()).update(() if c.rank is None else (c.rank,))
    said = [f"{name} ({watchdog.ranks(r)})" if r else name for name, r in others.items()]
    ended = sum(1 for d in digests for e in d.exits if e.code in (-15, -6, -9) and not e.first)
    if ended:
        said.append(f"{ended} process{'es' if ended > 1 else ''} ended by a signal")
    return said[:6]
