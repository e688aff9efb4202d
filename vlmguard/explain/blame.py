"""Which rank the others wait for: who says that it waited did not start it."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard.explain import launcher, watchdog
from vlmguard.explain.answer import Answer
from vlmguard.explain.candidates import Candidate
from vlmguard.explain.digest import Digest

MANY = 4096  # ranks


def by_table(answer: Answer, table: watchdog.Table) -> None:
    blamed = table.late or table.odd
    answer.evidence = [wait.line for wait in table.waits[:8]]
    if blamed:
        answer.ranks = blamed
        answer.sure = True
        answer.how = "it never came to the collective in which the others wait"
        there = [w for w in table.waits if w.rank in table.late]
        if there and len(there) == len(table.late):
            answer.how = (
                f"it is alive, and waits in #{there[0].seq}, which the others have behind them"
            )
        if not table.late:
            answer.how = "it waits in another collective than the others"
    elif table.same and len(table.waits) > 1 and _some(table, answer.facts.world):
        heard = watchdog.ranks(w.rank for w in table.waits if w.rank is not None)
        answer.ranks, answer.sure = (), False
        answer.how = (
            f"only waits of {heard} are in these logs, all in the same collective; those of the "
            "other ranks tell who never came"
        )
    elif len(table.waits) > 1:
        answer.ranks, answer.sure = tuple(w.rank for w in table.waits if w.rank is not None), False
        answer.how = "all of them wait in the same collective" if table.same else ""
    elif table.waits[0].rank is not None:
        answer.ranks, answer.sure = (), False
        answer.how = (
            f"only the wait of {watchdog.ranks([table.waits[0].rank])} is in these logs; "
            "those of the other ranks tell who never came"
        )


def _some(table: watchdog.Table, world: int | None) -> bool:
    """Whether there are ranks of which no wait is told."""
    heard = [w.rank for w in table.waits if w.rank is not None]
    return len(heard) == len(table.waits) and len(heard) < (world or max(heard) + 1)


def by_absence(
    answer: Answer, candidates: Sequence[Candidate], digests: Sequence[Digest], world: int | None
) -> None:
    """Who says that it waited, or lost its connection, did not start it: the others did."""
    said = answer.pick.known if answer.pick is not None else answer.known
    heard = {c.rank for c in candidates if c.known is said and c.rank is not None}
    named = {e.rank for d in digests for e in d.exits if e.rank is not None}
    named |= {d.source.rank for d in digests if d.source.rank is not None}
    told, world = world, world or max(heard | named, default=-1) + 1
    if not heard or world > MANY:
        return
    others = set(range(world)) - heard
    first = launcher.first([e for d in digests for e in d.exits])
    if first is not None and first.rank is not None and first.rank not in heard:
        answer.ranks, answer.sure = (first.rank,), True
        answer.how = "torchrun's first observed failure, and it lost no connection itself"
        return
    guessed = told is None and len(others) > 1  # ranks beyond the highest heard may be
    if others and len(others) <= max(len(heard), 1) and not guessed:
        answer.ranks, answer.sure = tuple(sorted(others)), len(others) == 1
        answer.how = "it is the one that the others waited for"
    elif not others and world > 1:
        answer.ranks, answer.sure = tuple(sorted(heard)), False
        answer.how = "all of them say the same"
    elif (others or told is None) and answer.ranks and set(answer.ranks) <= heard:
        answer.ranks, answer.sure = (), False
        answer.how = f"{watchdog.ranks(heard)} only waited: the logs of the others tell who began"
