"""Which of the things that happened started it.

Evidence in this order: the launcher's "first observed failure"; the place in one log, or clocks
that agree; cause before consequence, by class; else "one of ranks …".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vlmguard.explain import absent, launcher, living, victims, watchdog, whose
from vlmguard.explain.answer import Answer, evidence, facts_of
from vlmguard.explain.blame import by_absence, by_table
from vlmguard.explain.candidates import Candidate, collected, of_engine, with_parting
from vlmguard.explain.digest import Digest
from vlmguard.explain.ended import BY_EXIT, by_exit, nodes
from vlmguard.explain.failure import Known
from vlmguard.explain.logfacts import Facts
from vlmguard.explain.meanwhile import alone, by_hand, preparing
from vlmguard.explain.silent import no_numbers, silent
from vlmguard.explain.unloaded import unloaded

_MISSING = re.compile(r"\bRanks? ([\d, ]{1,200}) failed to pass monitoredBarrier")
# Who ended it says so → what the ended say beside it; "": what is in no catalogue.
_WORDS = {
    "VG532": {"VG532", "VG544", "VG531", "VG583", "VG543", ""},
    "VG534": {"VG534", "VG562", "VG537", ""},
    "VG543": {"VG543", "VG544"},
    "VG531": {"VG531", "VG569", "VG590"},  # it waits for another place
    "VG530": {"VG530", "VG531"},
    "VG533": {"VG533", "VG536", "VG534"},  # the others lost their connection to the node
}
# What a kernel says of a process or card: who fell says whose.
_FROM_BELOW = ("VG532", "VG534", "VG543")
_ENDED = "VG569"  # from outside
BEHIND = 3  # lines of a message behind an exception's first
_ABOVE = re.compile(r"root cause above|above for the root cause|[Ss]ee stack trace for root cause")
_CAUGHT = ("VG552", "VG540", "VG590")  # what a later, stronger failure makes noise of


def judge(digests: Sequence[Digest], facts: Facts, catalogue: Sequence[Known]) -> Answer:
    """The verdict over all logs of one run."""
    by_code = {known.code: known for known in catalogue}
    ended = launcher.first([e for d in digests for e in d.exits])
    candidates = victims.told_apart(collected(digests, catalogue), digests, by_code, ended)
    candidates = with_parting(candidates, digests)
    watched = (line for d in digests for line in d.watched)
    table = watchdog.table(watched, facts.world or _speak(digests))
    answer = _started(candidates, digests, by_code)
    if answer is None:
        answer = silent(digests, by_code)
    if _broken_before(answer, digests):
        answer.known, answer.verdict = by_code["VG515"], "explained"
    if answer.known is not None and answer.known.code == _ENDED:
        found = no_numbers(digests, by_code) or unloaded(answer, digests, by_code)
        answer = found or by_hand(answer, digests, by_code) or answer
    answer.table = table
    answer.facts = facts_of(answer, facts, digests)
    if table is not None and (table.size or 0) > (answer.facts.world or table.size or 0):
        answer.facts = replace(answer.facts, world=table.size)  # a share of all ranks', not its own
    if _without_address(answer, digests):
        answer.known = by_code["VG536"]
    answer.facts = replace(answer.facts, seen=_seen(answer, digests))
    known = answer.known
    if known is not None and known.order in ("hang", "peer"):
        _waited(answer, known, by_code, candidates, digests)
    if (told := whose.told(answer, digests)) is not None:
        answer.ranks, answer.sure, answer.how = (told[0],), True, told[1]
    return answer


def _seen(answer: Answer, digests: Sequence[Digest]) -> frozenset[str]:
    """What the ranks tell together; see `Facts.seen`."""
    world = answer.facts.world or _speak(digests)
    seen = set()
    if answer.table is not None and answer.table.everyone(world):
        seen.add("all wait")
    if answer.table is not None and answer.table.parted:
        seen.add("parted")
    if world and world > 1 and set(answer.alike) >= set(range(world)):
        seen.add("everywhere")
    if alone(digests):
        seen.add("alone")
    if living.all_of_them(answer.facts, digests):
        seen.add("none killed")
    if absent.each_its_own(digests):
        seen.add("rank files")
    return frozenset(seen)


def _speak(digests: Sequence[Digest]) -> int | None:
    """How many ranks there are at least, where each up to the highest says something."""
    ranks = {rank for d in digests for rank in d.finals if rank is not None}
    return len(ranks) if ranks and max(ranks) == len(ranks) - 1 else None


def _waited(
    answer: Answer,
    known: Known,
    by_code: dict[str, Known],
    candidates: Sequence[Candidate],
    digests: Sequence[Digest],
) -> None:
    """Who the others waited for, and whether it was saving or evaluating."""
    table = answer.table
    if named := _MISSING.search(answer.facts.message):
        answer.ranks = tuple(int(rank) for rank in re.findall(r"\d+", named[1]))
        answer.sure, answer.how = True, "a barrier names who never came to it"
        return
    late = answer.facts.phase in ("evaluation", "save") and not (table and table.odd)
    if late and known.code == "VG505":
        answer.known = by_code["VG551"]
    elif known.code == "VG505" and not (table and table.odd) and _late(answer, digests):
        answer.known = by_code["VG517"]
    if answer.known is by_code["VG517"] and preparing(digests):
        answer.facts = replace(answer.facts, phase="data")
    if table is None or known.order == "peer":
        by_absence(answer, candidates, digests, answer.facts.world)
    else:
        by_table(answer, table)
    began = [d.progress.began for d in digests if d.progress.began is not None]
    if answer.known is by_code["VG551"] and began:
        answer.evidence = [*answer.evidence[:7], began[-1]]  # what it did meanwhile


def _late(answer: Answer, digests: Sequence[Digest]) -> bool:
    """Whether one still prepares; torch's own check compares those that have come."""
    return "mismatch between collectives" not in answer.facts.message and preparing(digests)


def _broken_before(answer: Answer, digests: Sequence[Digest]) -> bool:
    """A traceback that is cut before it says anything, behind a loss that is no number."""
    event = answer.pick.event if answer.pick is not None else None
    cut = answer.known is None and event is not None and not event.type
    losses = [d.progress.losses for d in digests if d.progress.losses]
    return cut and any(told[-1][1] == 2 for told in losses)


def _without_address(answer: Answer, digests: Sequence[Digest]) -> bool:
    """A wait for a host whose name nobody could resolve: nobody was late."""
    if answer.known is None or answer.known.code != "VG517" or answer.pick is None:
        return False
    told = f"{answer.facts.message} {answer.pick.line.raw}"
    return any(host in told for d in digests for host in d.unresolved)


def _started(
    candidates: list[Candidate], digests: Sequence[Digest], by_code: dict[str, Known]
) -> Answer | None:
    ended = launcher.first([e for d in digests for e in d.exits])
    candidates = _without_weak(candidates, digests)
    if not candidates:
        return None
    lowest = min(c.order for c in candidates)
    before = lowest == 1 and _gone_before(ended, candidates)
    if before and (told := by_exit(digests, by_code)) is not None:
        return told
    if lowest == 3 and (told := by_exit(digests, by_code)) is not None:
        return told
    some = _no_afterthoughts([c for c in candidates if c.order == lowest], candidates, ended)
    if lowest == 2:
        some = [c for c in candidates if _to_launcher(c)] or some
    if lowest == 2 and _aborted(ended, some):
        return None  # it said nothing itself: the peers only saw its end
    if (
        lowest >= 2
        and not _to_launcher(some[0])
        and (told := by_exit(digests, by_code)) is not None
    ):
        return told
    pick, how, sure = _first(_why_they_ended(some), ended)
    alike = sorted({c.rank for c in candidates if c.key == pick.key and c.rank is not None})
    ranks = _ranks(pick, some, ended, sure) or _told_elsewhere(pick, candidates, digests)
    answer = Answer("explained" if pick.known else "unknown", pick.known, pick, ranks, how, sure)
    answer.alike = tuple(alike)
    answer.followed = _followed(pick, candidates, digests)
    answer.evidence = evidence(pick)
    return answer


def _gone_before(ended: launcher.Exit | None, waits: Sequence[Candidate]) -> bool:
    """Whether the rank that ended first crashed or was killed, and others say that they waited."""
    heard = {c.rank for c in waits} - {None}
    crashed = ended is not None and ended.code in (-9, -11, -7, -4, -8)
    return crashed and bool(heard) and ended is not None and ended.rank not in heard


def _aborted(ended: launcher.Exit | None, peers: Sequence[Candidate]) -> bool:
    """Whether the rank that ended first aborted, without a word on a lost connection of its own."""
    ranks = {c.rank for c in peers}
    return ended is not None and ended.code in (-6, 134) and ended.rank not in ranks | {None}


def _why_they_ended(some: list[Candidate]) -> list[Candidate]:
    """A kernel's or scheduler's own word on an end goes before what the ended programs said.

    "Killed for memory" explains a worker that is gone and whatever its parent raised; "time limit"
    says why a job was deleted, a driver's Xid why a CUDA call failed.
    """
    told = {c.key[0] for c in some if c.known is not None and c.event is None}
    codes = {c.key[0] for c in some}
    word = next((word for word, ended in _WORDS.items() if word in told and codes <= ended), None)
    return [c for c in some if c.key[0] == word] if word is not None else some


def _to_launcher(candidate: Candidate) -> bool:
    """A signal that torchrun itself got: no rank lost its connection before that."""
    return candidate.event is not None and candidate.event.type.endswith("SignalException")


def _without_weak(candidates: list[Candidate], digests: Sequence[Digest]) -> list[Candidate]:
    """An import that fails is often caught; beside a later failure that says more it is noise."""
    if any(c.known is not None and c.order <= 1 for c in candidates):  # cut tracebacks tell less
        candidates = [c for c in candidates if c.known or c.event is None or c.event.type]
    said = {c.line.source for c in candidates if c.order == 0 and c.known and _typed(c)}
    candidates = [c for c in candidates if _typed(c) or c.line.source not in said]
    if any(of_engine(c) for c in candidates):
        candidates = [c for c in candidates if not _points_up(c)]
    strong = [c for c in candidates if c.order <= 1 and not _weak(c)]
    latest = max((c.at for c in strong), default=-1)
    return [c for c in candidates if not _weak(c) or c.at > latest or _last_word(c, digests)]


def _points_up(candidate: Candidate) -> bool:
    """Whether it says only that an engine failed, or itself that the cause stands above."""
    if candidate.event is None:
        return candidate.key[0] == "VG566"
    return _ABOVE.search(candidate.event.message) is not None


def _last_word(candidate: Candidate, digests: Sequence[Digest]) -> bool:
    """Whether it is the last that a rank says: others' failures do not make noise of it."""
    event, source = candidate.event, candidate.line.source
    if event is None or event.last is None or candidate.rank is None:
        return False
    final = digests[source].finals.get(candidate.rank) if source < len(digests) else None
    return final is not None and final.number - event.last.number <= BEHIND


def _typed(candidate: Candidate) -> bool:
    """Not a traceback that is cut, or that another rank's lines went through."""
    return candidate.event is None or bool(candidate.event.type)


def _weak(candidate: Candidate) -> bool:
    known = candidate.known
    if known is not None and known.code == "VG566" and candidate.event is None:
        return True  # an engine's own "failed": its traceback, if there is one, says why
    if known is not None and known.code == "VG539" and candidate.event is None:
        return True  # a hub's refusal is no end where the files are there
    return not candidate.line.marked and known is not None and known.code in _CAUGHT


def _no_afterthoughts(
    some: list[Candidate], all_: list[Candidate], ended: launcher.Exit | None
) -> list[Candidate]:
    """Unknown exceptions that come after a known hang in the same log are its teardown.

    But not that of the rank that ended first, where only others say that they waited.
    """
    if any(c.known for c in some) or not some:
        return some
    hangs = [c for c in all_ if c.order == 1]
    waited = {c.rank for c in hangs} | {None}
    if ended is not None and ended.code == 1 and ended.rank not in waited:
        own = [c for c in some if c.rank == ended.rank and c.event is not None and c.event.type]
        if own:
            return own
    first = [
        c for c in some if not any(h.line.source == c.line.source and h.at < c.at for h in hangs)
    ]
    return first or (hangs if hangs else some)


def _first(some: list[Candidate], ended: launcher.Exit | None) -> tuple[Candidate, str, bool]:
    said = BY_EXIT.get(ended.code) if ended is not None else None
    below = [c for c in some if c.event is None and c.rank is None and c.key[0] == said]
    if ended is not None and ended.rank is not None and below:
        return min(below, key=lambda c: c.at), "torchrun's first observed failure", True
    ranked = [c for c in some if ended is not None and c.rank == ended.rank]
    if ranked:
        return min(ranked, key=lambda c: c.at), "torchrun's first observed failure", True
    sources = {c.line.source for c in some}
    if len(sources) == 1:
        pick = min(some, key=lambda c: c.at)
        how = "torchrun's first observed failure" if ended else "its place in the log"
        return pick, how, True
    timed = [c for c in some if _time(c) is not None]
    again = {(c.key, c.line.source) for c in timed}
    if all(c in timed or (c.key, c.line.source) in again for c in some):
        return min(timed, key=lambda c: _time(c) or ()), "the ranks' clocks", True
    known = [c for c in some if c.known] or some
    pick = min(known, key=lambda c: (c.line.source, c.at))
    return pick, "", len({c.rank for c in known}) == 1


def _time(candidate: Candidate) -> tuple[int, ...] | None:
    return candidate.event.time if candidate.event else candidate.line.time


def _ranks(
    pick: Candidate, some: list[Candidate], ended: launcher.Exit | None, sure: bool
) -> tuple[int, ...]:
    if not sure:
        return tuple(sorted({c.rank for c in some if c.rank is not None}))
    if pick.rank is not None:
        return (pick.rank,)
    return (ended.rank,) if ended is not None and ended.rank is not None else ()


def _told_elsewhere(
    pick: Candidate, candidates: list[Candidate], digests: Sequence[Digest]
) -> tuple[int, ...]:
    """The rank of an exception that bears none: another line of the same failure, a launcher."""
    same = {c.rank for c in candidates if c.key == pick.key and c.rank is not None}
    if not same and pick.event is None and pick.key[0] in _FROM_BELOW:
        same = {c.rank for c in candidates if c.order <= 1 and c.rank is not None}
    if len(same) == 1:
        return tuple(r for r in same if r is not None)
    ended = [e for d in digests for e in d.exits if e.code not in (-15, -6)]
    named = {e.rank for e in ended if e.rank is not None}
    local = {e.local for e in ended if e.local is not None and e.code > 0 and not nodes(digests)}
    cut = {e.rank for d in digests for e in d.events if not e.type and e.rank is not None}
    told = named or local or cut
    return tuple(r for r in told if r is not None) if len(told) == 1 else ()


def _followed(pick: Candidate, candidates: list[Candidate], digests: Sequence[Digest]) -> list[str]:
    told: dict[str, set[int]] = {}
    begun = any(d.progress.steps for d in digests)  # it was started: a pod's new place was not had
    for c in candidates:
        if (
            c is pick
            or c.key == pick.key
            or (begun and c.known is not None and c.known.code == "VG590")
        ):
            continue
        name = c.known.title if c.known else c.event.type if c.event else "an unknown failure"
        told.setdefault(name, set()).update(() if c.rank is None else (c.rank,))
    found = [f"{name} ({watchdog.ranks(r)})" if r else name for name, r in told.items()]
    ended = sum(1 for d in digests for e in d.exits if e.code in (-15, -6, -9) and not e.first)
    if ended:
        found.append(f"{ended} process{'es' if ended > 1 else ''} ended by a signal")
    return found[:6]
