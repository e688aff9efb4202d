"""What is said of a log: its verdict, where it started, and what shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from vlmguard_explain.cause.candidates import Candidate
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.match.catalogue import Known
from vlmguard_explain.run import watchdog
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.run.logfacts import Facts
from vlmguard_explain.tracebacks.event import Event, flat

Verdict = Literal["explained", "unknown", "unfinished", "finished"]


@dataclass
class Answer:
    """What the judge says."""

    verdict: Verdict
    known: Known | None = None
    pick: Candidate | None = None
    ranks: tuple[int, ...] = ()  # where it started; empty where the log does not tell
    how: str = ""  # the evidence for ``ranks``, in words
    sure: bool = True  # False for "one of ranks …"
    alike: tuple[int, ...] = ()  # ranks that show the same failure
    followed: list[str] = field(default_factory=list)  # consequences, in words
    table: watchdog.Table | None = None
    facts: Facts = field(default_factory=Facts)
    evidence: list[Line] = field(default_factory=list)
    guard: list[Any] = field(default_factory=list)  # what vlmguard itself said in this run
    code: int | None = None  # the exit code that a launcher tells, where that is all there is

    def explain(self, known: Known) -> None:
        """Take ``known`` for the failure."""
        self.known, self.verdict = known, "explained"


def found(pick: Candidate, ranks: Sequence[int] = (), how: str = "", sure: bool = True) -> Answer:
    """The answer that ``pick`` is."""
    verdict: Verdict = "explained" if pick.known else "unknown"
    return Answer(verdict, pick.known, pick, tuple(ranks), how, sure, evidence=_evidence(pick))


def _evidence(pick: Candidate) -> list[Line]:
    last = pick.event.last if pick.event else None
    if pick.event is None or last is None:
        return [pick.line]
    more = " ".join(pick.event.message.split("\n")[1:])  # of a message of several lines
    last = replace(last, raw=f"{last.raw.rstrip()} {flat(more).strip()}".rstrip())
    return [last] if last.number == pick.line.number else [pick.line, last]


def device_assert(pick: Candidate, digests: Sequence[Digest]) -> Event | None:
    """The exception behind a kernel's assertion: maybe a later call's, but of the same program."""
    if "Assertion" not in pick.line.raw or pick.line.source >= len(digests):
        return None
    events = (e for e in digests[pick.line.source].events if "device-side assert" in e.message)
    return next(events, None)
