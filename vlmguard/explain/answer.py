"""What is said of a log: its verdict, where it started, and what shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from vlmguard.explain import absent, phases, watchdog
from vlmguard.explain.candidates import Candidate
from vlmguard.explain.digest import Digest
from vlmguard.explain.event import Event
from vlmguard.explain.failure import Known, flat
from vlmguard.explain.lines import Line
from vlmguard.explain.logfacts import Facts

# Bars that are full, and those of a step's own rollouts.
_OF_A_STEP = re.compile(r"100%|[Pp]rompts|[Rr]equests|[Rr]ollout")
_BAR = re.compile(r"\[(?:(\d{1,3}):)?(\d{1,2}):(\d\d)<(?:(\d{1,3}):)?(\d{1,2}):(\d\d),")
Verdict = Literal["explained", "unknown", "unfinished", "finished"]


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


def evidence(pick: Candidate) -> list[Line]:
    if pick.event is None:
        return [pick.line]
    last = pick.event.last
    if last is None:
        return [pick.line]
    more = " ".join(pick.event.message.split("\n")[1:])  # of a message of several lines
    last = replace(last, raw=f"{last.raw.rstrip()} {flat(more).strip()}".rstrip())
    return [last] if last.number == pick.line.number else [pick.line, last]


def facts_of(answer: Answer, facts: Facts, digests: Sequence[Digest]) -> Facts:
    steps = [s for d in digests for s in d.progress.steps]
    last = max(steps, key=lambda s: s[1], default=None)
    facts = replace(facts, steps=(last[1], last[2]) if last else None)
    if answer.table is not None and answer.table.gone:
        facts = replace(facts, said={**facts.said, **_absent(answer.table.gone[0], digests)})
    if needs := _needs(digests):
        facts = replace(facts, said={**facts.said, "needs": str(needs)})
    pick = answer.pick
    if pick is None:
        return facts
    name = digests[pick.line.source].source.name if pick.line.source < len(digests) else ""
    facts = replace(facts, log=name if name != "-" else "")
    if pick.event is None:
        later = flat(answer.evidence[-1].raw) if len(answer.evidence) > 1 else ""
        losses = later if "'loss': " in later else ""  # what the loss came to
        trace = losses or _of_assert(pick, digests)
        return facts.at(flat(pick.line.raw), trace, _context(pick, digests))
    event = pick.event.reason
    trace = flat(" ".join(event.trace))
    phase = phases.of(event) or _context(pick, digests)
    return facts.at(flat(f"{event.type}: {event.message}")[:6000], trace, phase)


def asserted(pick: Candidate, digests: Sequence[Digest]) -> Event | None:
    """The exception behind a kernel's assertion: maybe a later call's, but of the same program."""
    if "Assertion" not in pick.line.raw or pick.line.source >= len(digests):
        return None
    events = (e for e in digests[pick.line.source].events if "device-side assert" in e.message)
    return next(events, None)


def _of_assert(pick: Candidate, digests: Sequence[Digest]) -> str:
    event = asserted(pick, digests)
    return flat(" ".join(event.trace)) if event is not None else ""


def _absent(rank: int, digests: Sequence[Digest]) -> dict[str, str]:
    """The rank that never came, and the last line of its own log, where each has one."""
    if not absent.own_logs(rank, digests):
        return {"absent": str(rank)}
    last = absent.last_words(rank, digests)
    return {"absent": str(rank), "absentlast": flat(last.raw)[:400] if last is not None else ""}


def _needs(digests: Sequence[Digest]) -> int:
    """How many seconds the bar that moved when the log ended takes in all."""
    for bar in (bar for d in digests for bar in (d.progress.began, d.progress.loading)):
        found = _BAR.findall(bar.text) if bar is not None else []
        if found:
            hours, minutes, seconds, *left = (int(n or 0) for n in found[-1])
            more = left[0] * 3600 + left[1] * 60 + left[2]
            return hours * 3600 + minutes * 60 + seconds + more
    return 0


def _context(pick: Candidate, digests: Sequence[Digest]) -> str:
    """Evaluation or saving, where the log says that one had begun and no step came after it."""
    for digest in digests:
        told = digest.progress
        steps, bar = told.steps, told.loading
        behind = bool(steps) and bar is not None and bar.at > steps[-1][0]
        if behind and bar is not None and not _OF_A_STEP.search(bar.text[:120]):
            return "evaluation"  # a bar of something else than the training, behind its last step
        if not steps and bar is not None and "Loading checkpoint shards" in bar.text:
            return "" if "Time to load cpu_adam op" in digest.text else "load"
        start = max(told.evaluating, told.saving)
        if start < 0 or told.resumed(start):
            continue
        return "evaluation" if told.evaluating > told.saving else "save"
    return ""
