"""What may have started a failure: exceptions and telling lines that the run did not survive."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.lines.lines import Line, Time
from vlmguard_explain.match.catalogue import Known, by_code
from vlmguard_explain.match.classify import NO_ROW, classify
from vlmguard_explain.run import endings, watchdog
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.run.logfacts import Facts
from vlmguard_explain.tracebacks.event import Event, flat

_P = patterns("cause.candidates")
_T = words("cause.candidates")

_ORDER = {"cause": 0, "hang": 1, "peer": 2, "end": 3}
_SCHEDULER = ("VG530", "VG531")
_ENDED = "VG569"  # something outside ended the run
STEPS_THAT_PROVE = 2  # after this rank's end another rank's bar may grow by one step, not by two
WORK = 10  # bars


@dataclass
class Candidate:
    """One thing that may have started it: an exception, or a line with a failure's words."""

    known: Known | None
    line: Line
    event: Event | None = None
    rank: int | None = None

    @property
    def order(self) -> int:
        return _ORDER[self.known.order] if self.known else 0

    @property
    def at(self) -> int:
        return self.event.at if self.event else self.line.at

    @property
    def code(self) -> str:
        return self.known.code if self.known else ""

    @property
    def key(self) -> tuple[str, str]:
        """The same for two candidates of one failure."""
        return self.code, "" if self.known else self.event.type if self.event else self.said[:40]

    @property
    def said(self) -> str:
        return self.event.message if self.event else self.line.raw

    @property
    def time(self) -> Time | None:
        return self.event.time if self.event else self.line.time

    @property
    def whole(self) -> bool:
        """Not a traceback that is cut before its last line."""
        return self.event is None or bool(self.event.type)


def collected(digests: Sequence[Digest]) -> list[Candidate]:
    """All candidates of all logs."""
    found = [c for digest in digests for c in (*_raised(digest), *_lines(digest))]
    if any(d.progress.done for d in digests) and not any(d.exits or d.stopped for d in digests):
        # A log marks the end, and no launcher saw a failure. So a log without steps has no failure.
        runs = [d.number for d in digests if d.progress.steps or d.progress.done]
        found = [c for c in found if c.line.source in runs]
    return found


def _raised(digest: Digest) -> list[Candidate]:
    events = [e for e in digest.events if not e.caught and not _passed(e, digest)]
    for event in events:
        if event.message.startswith(NO_ROW) and event.cause is None:
            event.cause = _logged_before(event, digest.events)
    inner = {id(e.cause) for e in events if e.cause is not None and e.type}
    found = [
        Candidate(classify(e), e.line, e, e.rank)
        for e in events
        if id(e) not in inner
        and not e.ignored  # a side thread raised it
        and (not launchers(e) or _P.build.search(e.message))
        and not _wraps(e, events)
    ]
    # If a launcher reported exits, a traceback without an end is the launcher's.
    return [c for c in found if c.known or c.whole or not digest.exits]


def _passed(event: Event, digest: Digest) -> bool:
    """Whether the run went on behind it, or tried again as it says, or took up other work."""
    attempt = _P.attempt.search(event.message.partition("\n")[2][:2000])
    again = attempt is not None and int(attempt[1]) < int(attempt[2])
    return again or _interrupted(event.type, event.at, digest) or survived(event.at, digest)


def _interrupted(text: str, at: int, digest: Digest) -> bool:
    """A Ctrl-C after which the script took up its next piece of work: many bars follow."""
    later = sum(1 for place in digest.progress.bars if place > at)
    return text.strip() == "KeyboardInterrupt" and not digest.exits and later >= WORK


def _logged_before(event: Event, events: Sequence[Event]) -> Event | None:
    """What the last row failed with, as a logger wrote it before there was none left."""
    rows = [e for e in events if e.caught and e.source == event.source and e.at < event.at]
    return next((e for e in reversed(rows) if any("dataset" in f[0] for f in e.frames)), None)


def _lines(digest: Digest) -> Iterator[Candidate]:
    told = digest.progress
    # Ranks mixed their lines: take the first line that has an exception's words.
    loose = [(line, known) for line, known in digest.fragments if not survived(line.at, digest)][:1]
    for line, known in (*loose, *digest.matched):
        over = known.code == _ENDED and told.over(line.at)
        over = over or _interrupted(line.text, line.at, digest)
        end = _outlived if known.code in _SCHEDULER else survived
        if not (over or end(line.at, digest)):
            yield Candidate(known, line, None, line.rank)


def launchers(event: Event) -> bool:
    """Whether a launcher raised it for a rank that failed: not the failure itself."""
    return event.name in _T.launchers


def _wraps(event: Event, others: list[Event]) -> bool:
    """A worker's or a replica's exception is raised again in the rank; the original follows it."""
    if _P.caught.match(event.message):
        return any(e is not event and e.at >= event.at and e.type == event.type for e in others)
    others = [e for e in others if e is not event and not launchers(e)]
    return not event.type and any(e.type or e.at > event.at for e in others)


def _outlived(at: int, digest: Digest) -> bool:
    """A scheduler's word ends a run, though some steps more are taken: only a new start tells."""
    told = digest.progress
    loaded = told.loading is not None and told.loading.at > at
    anew = loaded and told.after(at) >= STEPS_THAT_PROVE
    return told.finished(at) or anew or any(place > at for place in told.restarts)


def survived(at: int, digest: Digest) -> bool:
    """Whether the run went on after it: more steps, or an end that is marked."""
    place = bisect_left(digest.ends, at)
    ends = digest.ends[place : place + 1]  # the first end after it
    told, after = digest.progress, digest.ends[-1] if ends else at
    if told.finished(after) or told.after(after) >= STEPS_THAT_PROVE:
        return True
    # If many steps came between it and the end, it did not end the run.
    return bool(ends) and told.after(at) - told.after(ends[0]) >= STEPS_THAT_PROVE


def with_exit_message(found: list[Candidate], digests: Sequence[Digest]) -> list[Candidate]:
    """These, and the last line of the rank that ended first, by code 1, and left nothing else,
    where the others only lost it. Only a rank's own stream tells."""
    ended = endings.first([e for d in digests for e in d.exits])
    rank = ended.rank if ended is not None and ended.code == 1 else None
    if not found or any(c.order <= 1 or c.rank == rank for c in found) or ended is None:
        return found
    finals = [d.finals[rank] for d in digests if rank is not None and rank in d.finals]
    if len(finals) != 1 or _P.anyway.search(finals[0].text):
        return found
    here = finals[0].source == ended.line.source
    own = [] if here and finals[0].at > ended.line.at else finals
    return [*found, *(Candidate(None, line, None, line.rank) for line in own)]


_GONE, _NETWORK = "VG563", "VG536"
_FROM_BELOW = ("VG532", "VG533", "VG534", "VG543")  # a kernel, driver or scheduler reports it
_OF_LINKS = ("VG536", "VG533", "VG588", "VG596", "VG542", "VG584", "VG540")


def with_lost_peers(
    candidates: list[Candidate],
    digests: Sequence[Digest],
    ended: endings.Exit | None,
) -> list[Candidate]:
    """The same, with a lost connection as "peer gone" where something else failed.

    That is: a rank raised what no broken link makes, a card or a machine failed, a process
    crashed, or a rank ended that lost no connection itself.
    """
    network = [c for c in candidates if c.code == _NETWORK]
    lost = [c for c in network if _P.peer.search(c.said)]
    ranks = {c.rank for c in lost}
    fell = any(c.event is None and c.code in _FROM_BELOW for c in candidates)
    ends = (e for d in digests for e in d.exits if e.first or e.rank is None)
    fell = fell or any(endings.crashed(e) for e in ends)
    fell = fell or any(_own_failure(c) for c in candidates if c.rank not in ranks - {None})
    before = None not in ranks and ended is not None and ended.rank not in {*ranks, None}
    refused = all(_P.refused.search(c.said) for c in network)
    told = refused and any(c.code == _GONE and c.event is not None for c in candidates)
    secondary = network if told else lost if fell or before else []
    return [replace(c, known=by_code()[_GONE]) if c in secondary else c for c in candidates]


def _own_failure(candidate: Candidate) -> bool:
    """Whether a rank raised a failure that no broken link makes."""
    event = candidate.event
    if event is None or candidate.order or not event.type or candidate.code in _OF_LINKS:
        return False
    return candidate.known is not None or event.name in _T.of_code


Verdict = Literal["explained", "unknown", "unfinished", "finished"]


@dataclass
class Answer:
    """What the judge says."""

    verdict: Verdict
    known: Known | None = None
    pick: Candidate | None = None
    ranks: tuple[int, ...] = ()  # where it started; empty if the log does not tell
    how: str = ""  # the evidence for ``ranks``, in words
    sure: bool = True  # False for "one of ranks …"
    alike: tuple[int, ...] = ()  # ranks that show the same failure
    followed: list[str] = field(default_factory=list)  # consequences, in words
    table: watchdog.Table | None = None
    facts: Facts = field(default_factory=Facts)
    evidence: list[Line] = field(default_factory=list)
    guard: list[Any] = field(default_factory=list)  # what vlmguard itself said in this run
    code: int | None = None  # the launcher's exit code, if nothing else is known

    @property
    def failure(self) -> str:
        """The failure's code; "" where none of the catalogue is known."""
        return self.known.code if self.known is not None else ""

    def explain(self, code: str) -> None:
        """Take this failure of the catalogue for it."""
        self.known, self.verdict = by_code()[code], "explained"


def found(pick: Candidate, ranks: Sequence[int] = (), how: str = "", sure: bool = True) -> Answer:
    """The answer that ``pick`` is."""
    verdict: Verdict = "explained" if pick.known else "unknown"
    return Answer(verdict, pick.known, pick, tuple(ranks), how, sure, evidence=_evidence(pick))


def _evidence(pick: Candidate) -> list[Line]:
    last = pick.event.last if pick.event else None
    if pick.event is None or last is None:
        return [pick.line]
    more = " ".join(pick.event.message.split("\n")[1:])  # the other lines of the message
    last = replace(last, raw=f"{last.raw.rstrip()} {flat(more).strip()}".rstrip())
    return [last] if last.number == pick.line.number else [pick.line, last]


def device_assert(pick: Candidate, digests: Sequence[Digest]) -> Event | None:
    """The exception behind a kernel's assertion: maybe a later call's, but of the same program."""
    if "Assertion" not in pick.line.raw:
        return None
    events = (e for e in digests[pick.line.source].events if "device-side assert" in e.message)
    return next(events, None)
