"""Who is missing: the rank for which the others waited, by their words, watchdogs, or silence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard_explain.cause.answer import Answer
from vlmguard_explain.cause.candidates import Candidate
from vlmguard_explain.lazy import patterns
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.run import launcher, watchdog
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.run.logfacts import Facts

_P = patterns("cause.missing")

MANY = 4096  # ranks


def waited_for(answer: Answer, candidates: Sequence[Candidate], digests: Sequence[Digest]) -> None:
    """Say who started a wait or a lost connection: not those who say it."""
    if barrier := _P.barrier.search(answer.facts.message):
        answer.ranks = tuple(int(rank) for rank in re.findall(r"\d+", barrier[1]))
        answer.sure, answer.how = True, "a barrier names who never came to it"
    elif answer.table is None or (answer.known is not None and answer.known.order == "peer"):
        _by_silence(answer, candidates, digests)
    else:
        _by_table(answer, answer.table)


def _by_table(answer: Answer, table: watchdog.Table) -> None:
    answer.evidence = [wait.line for wait in table.waits[:8]]
    heard = [w.rank for w in table.waits if w.rank is not None]
    if table.late or table.odd:
        answer.ranks, answer.sure = table.late or table.odd, True
        answer.how = "it never came to the collective in which the others wait"
        if not table.late:
            answer.how = "it waits in another collective than the others"
        elif not table.gone:
            answer.how = "it is alive, and waits in a collective that the others have completed"
        return
    answer.ranks, answer.sure, answer.how = (), False, ""
    every = len(heard) == (answer.facts.world or max(heard, default=0) + 1)
    if len(table.waits) > 1 and (every or not table.same or len(heard) < len(table.waits)):
        answer.ranks = tuple(heard)
        answer.how = "all of them wait in the same collective" if table.same else ""
    elif heard:
        answer.how = (
            f"only waits of {watchdog.ranks(heard)} are in these logs; "
            "those of the other ranks tell who never came"
        )


def _by_silence(answer: Answer, candidates: Sequence[Candidate], digests: Sequence[Digest]) -> None:
    """Who says that it waited, or lost its connection, did not start it: the others did."""
    said = answer.pick.known if answer.pick is not None else answer.known
    heard = {c.rank for c in candidates if c.known is said and c.rank is not None}
    ends = [e for d in digests for e in d.exits]
    logs = [*(e.rank for e in ends), *(d.source.rank for d in digests), *heard]
    world = answer.facts.world or max((r for r in logs if r is not None), default=-1) + 1
    if not heard or world > MANY:
        return
    others, first = set(range(world)) - heard, launcher.first(ends)
    few = len(others) == 1 or (answer.facts.world and len(others) <= len(heard))
    if first is not None and first.rank is not None and first.rank not in heard:
        answer.ranks, answer.sure = (first.rank,), True
        answer.how = "torchrun's first observed failure, and it lost no connection itself"
    elif others and few:
        answer.ranks, answer.sure = tuple(sorted(others)), len(others) == 1
        answer.how = "it is the one that the others waited for"
    elif not others and world > 1:
        answer.ranks, answer.sure = tuple(sorted(heard)), False
        answer.how = "all of them say the same"
    elif set(answer.ranks) <= heard and answer.ranks:
        answer.ranks, answer.sure = (), False
        answer.how = f"only {watchdog.ranks(heard)} waited: the others' logs tell who began"


def each_its_own(digests: Sequence[Digest]) -> bool:
    """Whether the logs that were given are files of single ranks."""
    return len({d.source.rank for d in digests} - {None}) > 1


def last_line(rank: int, digests: Sequence[Digest]) -> Line | None:
    """The last line of the rank's own file; None where it is empty or not there."""
    own = (d for d in digests if d.source.rank == rank)
    lines = [line for d in own for some in d.recent.values() for line in some]
    lines = [line for line in lines if not _P.code.match(line.raw)]
    return max(lines, key=lambda line: (line.time or (), line.at), default=None)


def own_log(rank: int, digests: Sequence[Digest]) -> str:
    """What the rank's own file is, before its last line."""
    if not any(d.source.rank == rank for d in digests):
        return f"rank {rank} has no file here: give its log as well"
    empty = last_line(rank, digests) is None
    return f"rank {rank}'s own log {'is empty' if empty else 'ends with'}"


def all_lived(facts: Facts, digests: Sequence[Digest]) -> bool:
    """Whether torchrun sent SIGTERM to each that had not failed itself, and none was killed.

    It says at once that one was killed: a rank that it ended was alive.
    """
    ended = {match[1] for d in digests for match in _P.ended.finditer(d.text)}
    failed = [one for d in digests for one in d.exits]
    if not ended or any(one.code in launcher.KILLED for one in failed):
        return False
    if facts.world is None:
        return facts.said.get("nnodes", "1") in ("", "1")
    return facts.world <= len(ended) + max(len({one.rank for one in failed}), 1)
