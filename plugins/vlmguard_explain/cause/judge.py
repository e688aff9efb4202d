"""The verdict over all logs of one run: what started it, on which rank, and what else they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vlmguard_explain.cause import attribution, failure, no_exception, root
from vlmguard_explain.cause.answer import Answer
from vlmguard_explain.cause.candidates import collected, with_exit_messages, with_lost_peers
from vlmguard_explain.cause.failure import at_failure
from vlmguard_explain.match.catalogue import Known
from vlmguard_explain.run import launcher, watchdog
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.run.logfacts import Facts

_WAIT, _START, _LATE, _ENDED = "VG505", "VG517", "VG551", "VG569"


def judge(digests: Sequence[Digest], facts: Facts, catalogue: Sequence[Known]) -> Answer:
    """Which of the things that happened started it."""
    by_code = {known.code: known for known in catalogue}
    ended = launcher.first(e for d in digests for e in d.exits)
    candidates = with_lost_peers(collected(digests), digests, by_code["VG563"], ended)
    candidates = with_exit_messages(candidates, digests)
    answer = root.started(candidates, digests, by_code, ended)
    answer = answer or no_exception.verdict(digests, by_code)
    if answer.known is by_code[_ENDED]:
        answer = no_exception.no_numbers(digests, by_code) or answer
    world = facts.world or _ranks(digests)
    answer.table = watchdog.table((line for d in digests for line in d.watched), world)
    answer.facts = at_failure(answer, facts, digests)
    if _without_address(answer, digests):
        answer.explain(by_code["VG536"])
    if answer.known is not None and answer.known.order in ("hang", "peer"):
        _what_it_did(answer, digests, by_code)
        attribution.waited_for(answer, candidates, digests)
    answer.facts = replace(answer.facts, seen=_seen(answer, digests))
    attribution.attribute(answer, digests)
    return answer


def _what_it_did(answer: Answer, digests: Sequence[Digest], by_code: dict[str, Known]) -> None:
    """A wait is another failure where one rank saved, evaluated, or still prepared its data."""
    if answer.known is by_code[_WAIT] and not (answer.table and answer.table.odd):
        if answer.facts.phase in ("evaluation", "save"):
            answer.explain(by_code[_LATE])
        # torch's own check compares those that have come
        elif "mismatch between collectives" not in answer.facts.message:
            answer.explain(by_code[_START if failure.preparing(digests) else _WAIT])
    if answer.known is by_code[_START] and failure.preparing(digests):
        answer.facts = replace(answer.facts, phase="data")


def _seen(answer: Answer, digests: Sequence[Digest]) -> frozenset[str]:
    """What the ranks tell together; see `Facts.seen`."""
    world = answer.facts.world or _ranks(digests)
    told = {
        "all wait": answer.table is not None and answer.table.everyone(world),
        "everywhere": bool(world and world > 1 and set(answer.alike) >= set(range(world))),
        "alone": failure.alone(digests),
        "none killed": attribution.all_lived(answer.facts, digests),
        "rank files": attribution.each_its_own(digests),
    }
    return frozenset(word for word, holds in told.items() if holds)


def _ranks(digests: Sequence[Digest]) -> int | None:
    """How many ranks there are at least, where each up to the highest prints something."""
    ranks = {rank for d in digests for rank in d.finals if rank is not None}
    return len(ranks) if ranks and max(ranks) == len(ranks) - 1 else None


def _without_address(answer: Answer, digests: Sequence[Digest]) -> bool:
    """A wait for a host whose name nobody could resolve: nobody was late."""
    if answer.known is None or answer.known.code != _START or answer.pick is None:
        return False
    said = f"{answer.facts.message} {answer.pick.line.raw}"
    return any(host in said for d in digests for host in d.unresolved)
