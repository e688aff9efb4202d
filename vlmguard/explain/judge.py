"""Which of the things that happened started it.

Evidence in this order: the launcher's "first observed failure"; the place in one log, or clocks
that agree; cause before consequence, by class; else "one of ranks …".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from vlmguard.explain import launcher, phases, stacks, watchdog
from vlmguard.explain.candidates import WRAPPERS, Candidate, collected, survived
from vlmguard.explain.digest import Digest
from vlmguard.explain.events import Event
from vlmguard.explain.failure import Known, flat
from vlmguard.explain.lines import Line
from vlmguard.explain.logfacts import Facts

Verdict = Literal["explained", "unknown", "unfinished", "finished"]

_BY_EXIT = {
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
_MISSING = re.compile(r"\bRanks? ([\d, ]{1,200}) failed to pass monitoredBarrier")
MANY = 4096  # ranks
# c10d's warnings: each may pass, and a log that ends with one did not get further.
_MEETING = (
    "[c10d] The client socket has failed to connect to",
    "[c10d] The client socket has timed out",
    "[c10d] waitForInput: poll for socket",
)
_CAUGHT = ("VG552", "VG540", "VG590")  # what a later, stronger failure makes noise of


@dataclass
class Answer:
    """What the judge says.

    Attributes:
        ranks: where it started; empty where no rank is told.
        how: the evidence for ``ranks``, in words.
        sure: False for "one of ranks …".
        alike: ranks that show the same failure.
        followed: consequences, in words.
        guard: what vlmguard itself said in this run (`ours.Said`).
        code: the exit code that a launcher tells, where that is all there is.
    """

    verdict: Verdict
    known: Known | None = None
    pick: Candidate | None = None
    ranks: tuple[int, ...] = ()
    how: str = ""
    sure: bool = True
    alike: tuple[int, ...] = ()
    followed: list[str] = field(default_factory=list)
    table: watchdog.Table | None = None
    facts: Facts = field(default_factory=Facts)
    evidence: list[Line] = field(default_factory=list)
    guard: list[Any] = field(default_factory=list)
    code: int | None = None


def judge(digests: Sequence[Digest], facts: Facts, catalogue: Sequence[Known]) -> Answer:
    """The verdict over all logs of one run."""
    by_code = {known.code: known for known in catalogue}
    candidates = collected(digests, catalogue)
    table = watchdog.table((line for d in digests for line in d.watched), facts.world)
    answer = _started(candidates, digests, by_code)
    if answer is None:
        answer = _silent(digests, by_code)
    answer.table = table
    answer.facts = _facts(answer, facts, digests)
    if _without_address(answer, digests):
        answer.known = by_code["VG536"]
    known = answer.known
    if known is None or known.order not in ("hang", "peer"):
        return answer
    if named := _MISSING.search(answer.facts.message):
        answer.ranks = tuple(int(rank) for rank in re.findall(r"\d+", named[1]))
        answer.sure, answer.how = True, "a barrier names who never came to it"
        return answer
    late = answer.facts.phase in ("evaluation", "save") and not (table and table.odd)
    if late and known.code == "VG505":
        answer.known = by_code["VG551"]
    if table is None or known.order == "peer":
        _by_absence(answer, candidates, digests, facts.world)
    else:
        _by_table(answer, table)
    return answer


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
    candidates = _without_weak(candidates)
    if not candidates:
        return None
    lowest = min(c.order for c in candidates)
    if lowest == 3 and (by_exit := _exit_class(digests, by_code)) is not None:
        return by_exit
    some = _no_afterthoughts([c for c in candidates if c.order == lowest], candidates)
    if lowest == 2:
        some = [c for c in candidates if _to_launcher(c)] or some
    if lowest == 2 and _aborted(ended, some):
        return None  # it said nothing itself: the peers only saw its end
    if (
        lowest >= 2
        and not _to_launcher(some[0])
        and (by_exit := _exit_class(digests, by_code)) is not None
    ):
        return by_exit
    pick, how, sure = _first(_why_they_ended(some), ended)
    alike = sorted({c.rank for c in candidates if c.key == pick.key and c.rank is not None})
    ranks = _ranks(pick, some, ended, sure) or _told_elsewhere(pick, candidates, digests)
    answer = Answer("explained" if pick.known else "unknown", pick.known, pick, ranks, how, sure)
    answer.alike = tuple(alike)
    answer.followed = _followed(pick, candidates, digests)
    answer.evidence = _evidence(pick)
    return answer


def _aborted(ended: launcher.Exit | None, peers: Sequence[Candidate]) -> bool:
    """Whether the rank that ended first aborted, without a word on a lost connection of its own."""
    ranks = {c.rank for c in peers}
    return ended is not None and ended.code in (-6, 134) and ended.rank not in ranks | {None}


def _why_they_ended(some: list[Candidate]) -> list[Candidate]:
    """A kernel's or scheduler's own word on an end goes before what the ended programs said.

    "Killed for memory" explains a worker that is gone and whatever its parent raised; "time limit"
    says why a job was deleted, a driver's Xid why a CUDA call failed.
    """
    told = {c.known.code for c in some if c.known is not None and c.event is None}
    other = {c.known.code if c.known is not None else "" for c in some}
    if "VG532" in told and other <= {"VG532", "VG544", "VG531", "VG583", "VG543", ""}:
        return [c for c in some if c.known is not None and c.known.code == "VG532"]
    if "VG534" in told and other <= {"VG534", "VG562", ""}:
        return [c for c in some if c.known is not None and c.known.code == "VG534"]
    if "VG530" in told and other == {"VG530", "VG531"}:
        return [c for c in some if c.known is not None and c.known.code == "VG530"]
    return some


def _to_launcher(candidate: Candidate) -> bool:
    """A signal that torchrun itself got: no rank lost its connection before that."""
    return candidate.event is not None and candidate.event.type.endswith("SignalException")


def _without_weak(candidates: list[Candidate]) -> list[Candidate]:
    """An import that fails is often caught; beside a later failure that says more it is noise."""
    if any(c.known is not None and c.order <= 1 for c in candidates):  # cut tracebacks tell less
        candidates = [c for c in candidates if c.known or c.event is None or c.event.type]
    strong = [c for c in candidates if c.order <= 1 and not _weak(c)]
    latest = max((c.at for c in strong), default=-1)
    return [c for c in candidates if not _weak(c) or c.at > latest]


def _weak(candidate: Candidate) -> bool:
    known = candidate.known
    if known is not None and known.code == "VG566" and candidate.event is None:
        return True  # an engine's own "failed": its traceback, if there is one, says why
    return not candidate.line.marked and known is not None and known.code in _CAUGHT


def _no_afterthoughts(some: list[Candidate], all_: list[Candidate]) -> list[Candidate]:
    """Unknown exceptions that come after a known hang in the same log are its teardown."""
    if any(c.known for c in some) or not some:
        return some
    hangs = [c for c in all_ if c.order == 1]
    first = [
        c for c in some if not any(h.line.source == c.line.source and h.at < c.at for h in hangs)
    ]
    return first or (hangs if hangs else some)


def _first(some: list[Candidate], ended: launcher.Exit | None) -> tuple[Candidate, str, bool]:
    ranked = [c for c in some if ended is not None and c.rank == ended.rank]
    if ranked:
        return min(ranked, key=lambda c: c.at), "torchrun's first observed failure", True
    sources = {c.line.source for c in some}
    if len(sources) == 1:
        pick = min(some, key=lambda c: c.at)
        how = "torchrun's first observed failure" if ended else "its place in the log"
        return pick, how, True
    if all(_time(c) is not None for c in some):
        return min(some, key=lambda c: _time(c) or ()), "the ranks' clocks", True
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
    if len(same) == 1:
        return tuple(r for r in same if r is not None)
    ended = [e for d in digests for e in d.exits if e.code not in (-15, -6)]
    named = {e.rank for e in ended if e.rank is not None}
    local = {e.local for e in ended if e.local is not None and e.code > 0 and not _nodes(digests)}
    cut = {e.rank for d in digests for e in d.events if not e.type and e.rank is not None}
    told = named or local or cut
    return tuple(r for r in told if r is not None) if len(told) == 1 else ()


def _exit_class(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """A process that was killed leaves no exception: its exit code is what there is."""
    found = [e for d in digests for e in d.exits if not survived(e.line.at - 1, d, digests)]
    over = [e for d in digests for e in d.exits if e.code == -15 and d.progress.over(e.line.at)]
    found = [e for e in found if e not in over]
    ended = (
        launcher.first(found)
        or next((e for e in found if e.code in _BY_EXIT and e.code not in (-15, 143)), None)
        or next(iter(found), None)
    )
    code = _BY_EXIT.get(ended.code) if ended is not None else None
    if ended is None or code is None or code not in by_code:
        return None
    pick = Candidate(by_code[code], ended.line, None, ended.rank)
    rank = ended.rank if ended.rank is not None or _nodes(digests) else ended.local
    ranks = () if rank is None else (rank,)
    how = "torchrun's first observed failure" if ended.first else "its exit code"
    return Answer("explained", by_code[code], pick, ranks, how, evidence=[ended.line])


def _nodes(digests: Sequence[Digest]) -> bool:
    """Whether the run has several nodes: a rank on its node is then no rank."""
    return any(_SEVERAL.search(d.text) for d in digests)


def _silent(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer:
    """No candidate: killed, failed without a word, losses of nan, finished, or it just ends."""
    if (answer := _exit_class(digests, by_code)) is not None:
        return answer
    for digest in digests:
        if digest.progress.broken:
            line = digest.progress.losses[-digest.progress.broken][0]
            known = by_code["VG515"]
            last = digest.progress.losses[-1][0]
            pick = Candidate(known, line, None, line.rank)
            return Answer("explained", known, pick, how="the logged losses", evidence=[line, last])
    if (hung := _hung(digests, by_code)) is not None:
        return hung
    failed = [
        e
        for d in digests
        for e in d.exits
        if not survived(e.line.at - 1, d, digests)
        and not (e.code == -15 and d.progress.over(e.line.at))
    ]
    if not failed and (empty := _unlabelled(digests, by_code)) is not None:
        return empty
    if failed:
        ended = launcher.first(failed) or failed[0]
        rank = ended.rank if ended.rank is not None or _nodes(digests) else ended.local
        ranks = () if rank is None else (rank,)
        how = "torchrun's first observed failure" if ended.first else ""
        pick = Candidate(None, ended.line, None, ended.rank)
        answer = Answer("unknown", None, pick, ranks, how, evidence=[ended.line])
        answer.code = ended.code
        return answer
    if (wrapped := _wrapped(digests)) is not None:
        pick = Candidate(None, wrapped.line, wrapped, wrapped.rank)
        return Answer("unknown", None, pick, how="", evidence=_evidence(pick))
    if (met := _waiting(digests)) is not None:
        known = by_code["VG517"]
        return Answer("explained", known, Candidate(known, met, None, met.rank), evidence=[met])
    if any(d.progress.done for d in digests):
        ends = [d.progress.end for d in digests if d.progress.end is not None]
        return Answer("finished", evidence=ends[-1:])
    return Answer("unfinished", evidence=_where_each(digests))


def _hung(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """Stacks that somebody took of processes that hang: what they wait for, who is elsewhere."""
    found = [s for d in digests for s in d.stacks]
    code, there = stacks.waiting(found)
    if code not in by_code:
        return None
    elsewhere = stacks.odd(found) if code == "VG505" else ()
    how = "it stands elsewhere than the others" if elsewhere else ""
    pick = Candidate(by_code[code], there[0].line, None, there[0].rank)
    evidence = [s.line for s in there[:8]]
    return Answer(
        "explained",
        by_code[code],
        pick,
        elsewhere,
        how,
        bool(elsewhere),
        (),
        [],
        None,
        Facts(),
        evidence,
    )


def _unlabelled(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """Losses of 0.0 from the first step on, in every log that has a loss."""
    told = [d.progress for d in digests if d.progress.zeros or d.progress.sound]
    if not told or not all(progress.unlabelled for progress in told):
        return None
    known, lines = by_code["VG593"], told[0].zeros
    pick = Candidate(known, lines[0], None, lines[0].rank)
    return Answer("explained", known, pick, how="the logged losses", evidence=[lines[0], lines[-1]])


def _waiting(digests: Sequence[Digest]) -> Line | None:
    """The line with which a log ends that never got past the ranks' first meeting."""
    if any(d.progress.steps or d.progress.done for d in digests):
        return None
    finals = (line for d in digests for line in d.finals.values())
    return next((line for line in finals if any(text in line.raw for text in _MEETING)), None)


def _wrapped(digests: Sequence[Digest]) -> Event | None:
    """A launcher's exception, where the log does not hold what it was raised for."""
    found = (
        e
        for d in digests
        for e in reversed(d.events)
        if e.type.rpartition(".")[2] in WRAPPERS and not survived(e.at, d, digests)
    )
    return next((e for e in found if not e.type.endswith("SystemExit")), None)


def _where_each(digests: Sequence[Digest]) -> list[Line]:
    finals = {(d.number, rank): line for d in digests for rank, line in d.finals.items()}
    return [
        finals[key]
        for key in sorted(finals, key=lambda k: (k[0], k[1] if k[1] is not None else -1))
    ][:64]


def _followed(pick: Candidate, candidates: list[Candidate], digests: Sequence[Digest]) -> list[str]:
    told: dict[str, set[int]] = {}
    for c in candidates:
        if c is pick or c.key == pick.key:
            continue
        name = c.known.title if c.known else c.event.type if c.event else "an unknown failure"
        told.setdefault(name, set()).update(() if c.rank is None else (c.rank,))
    found = [f"{name} ({watchdog.ranks(r)})" if r else name for name, r in told.items()]
    ended = sum(1 for d in digests for e in d.exits if e.code in (-15, -6, -9) and not e.first)
    if ended:
        found.append(f"{ended} process{'es' if ended > 1 else ''} ended by a signal")
    return found[:6]


def _evidence(pick: Candidate) -> list[Line]:
    if pick.event is None:
        return [pick.line]
    last = pick.event.last
    if last is None:
        return [pick.line]
    more = " ".join(pick.event.message.split("\n")[1:])  # of a message of several lines
    last = replace(last, raw=f"{last.raw.rstrip()} {flat(more).strip()}".rstrip())
    return [last] if last.number == pick.line.number else [pick.line, last]


def _facts(answer: Answer, facts: Facts, digests: Sequence[Digest]) -> Facts:
    steps = [s for d in digests for s in d.progress.steps]
    last = max(steps, key=lambda s: s[1], default=None)
    facts = replace(facts, steps=(last[1], last[2]) if last else None)
    pick = answer.pick
    if pick is None:
        return facts
    if pick.event is None:
        return facts.at(flat(pick.line.raw), "", _context(pick, digests))
    event = pick.event
    trace = flat(" ".join(event.trace))
    phase = phases.of(event) or _context(pick, digests)
    return facts.at(flat(f"{event.type}: {event.message}")[:6000], trace, phase)


def _context(pick: Candidate, digests: Sequence[Digest]) -> str:
    """Evaluation or saving, where the log says that one had begun and no step came after it."""
    for digest in digests:
        told = digest.progress
        start = max(told.evaluating, told.saving)
        if start < 0 or told.resumed(start):
            continue
        return "evaluation" if told.evaluating > told.saving else "save"
    return ""


def _by_table(answer: Answer, table: watchdog.Table) -> None:
    blamed = table.late or table.odd
    answer.evidence = [wait.line for wait in table.waits[:8]]
    if blamed:
        answer.ranks = blamed
        answer.sure = True
        answer.how = "it never came to the collective in which the others wait"
        if not table.late:
            answer.how = "it waits in another collective than the others"
    elif len(table.waits) > 1:
        answer.ranks, answer.sure = tuple(w.rank for w in table.waits if w.rank is not None), False
        answer.how = "all of them wait in the same collective" if table.same else ""
    elif table.waits[0].rank is not None:
        answer.ranks, answer.sure = (), False
        answer.how = (
            f"only the wait of {watchdog.ranks([table.waits[0].rank])} is in these logs; "
            "those of the other ranks tell who never came"
        )


def _by_absence(
    answer: Answer, candidates: Sequence[Candidate], digests: Sequence[Digest], world: int | None
) -> None:
    """Who says that it waited, or lost its connection, did not start it: the others did."""
    said = answer.pick.known if answer.pick is not None else answer.known
    heard = {c.rank for c in candidates if c.known is said and c.rank is not None}
    named = {e.rank for d in digests for e in d.exits if e.rank is not None}
    told, world = world, world or max(heard | named, default=-1) + 1
    others = set(range(world)) - heard
    if not heard or world > MANY:
        return
    guessed = told is None and len(others) > 1  # ranks beyond the highest heard may be
    if others and len(others) <= max(len(heard), 1) and not guessed:
        answer.ranks, answer.sure = tuple(sorted(others)), len(others) == 1
        answer.how = "it is the one that the others waited for"
    elif not others and world > 1:
        answer.ranks, answer.sure = tuple(sorted(heard)), False
        answer.how = "all of them say the same"
    elif others and answer.ranks and set(answer.ranks) <= heard:
        answer.ranks, answer.sure = (), False
        answer.how = f"{watchdog.ranks(heard)} only waited: the logs of the others tell who began"
