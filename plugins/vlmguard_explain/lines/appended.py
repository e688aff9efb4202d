"""A file to which several runs were appended: the last of them is what the user asks about.

Behind an end the next run begins with a launcher's or a job's first words, or with what a run in
this file printed first: ranks print the same first lines, too. A log of one process may end with
an exception that nobody caught, a signal or a mark of success. If several processes write into one
log, their launcher's word is the end, since one rank's exception is not the others' end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.lines.lines import Line, Time
from vlmguard_explain.run import endings, progress
from vlmguard_explain.tracebacks import events

_P = patterns("lines.appended")
_T = words("lines.appended")

HEAD, LOOKED = 6, 60  # usable lines to remember of a beginning; lines to search for them
AGAIN = 3  # how many of these must come again
AHEAD = 36  # lines in which these must come, and a time
SHORT = 15  # characters: a shorter line is too common


@dataclass
class _Run:
    """One run so far."""

    # its first usable lines, and how often each came; fronts: how those begin
    first: Counter[str] = field(default_factory=Counter)
    fronts: set[str] = field(default_factory=set)
    over: Line | None = None  # the line with which it ended; whole: all processes ended
    whole: bool = False
    time: Time | None = None  # the last time that it shows
    above: bool = False  # the line before begins a traceback; top: it begins in a main program
    top: bool = False
    seen: int = 0

    def read(self, line: Line) -> None:
        """Note what ``line`` says of this run."""
        self.seen += 1
        self.time = line.time or self.time
        early = self.seen <= LOOKED and len(self.first) < HEAD and self.over is None
        text = _usable(line) if early or line.text[:4] in self.fronts else ""
        if text and (early or text in self.first):
            self.first[text] += 1
            self.fronts.add(line.text[:4])
        if self._ends(line):
            self.over = line

    def _ends(self, line: Line) -> bool:
        text, above = line.text, self.above
        before, start, _ = text.partition(_T.traceback)
        self.above = bool(start) and line.level != "W" and not _P.quiet.search(before)
        if start:
            self.top = False
        elif above:
            self.top = _P.top.match(text) is not None  # one that was caught begins in a function
        elif self.top and text[:1].strip() and events.TYPE.match(text):
            self.top = False
            self.whole = self.whole or text.startswith("KeyboardInterrupt")
            return True
        if any(word in line.raw for word in _T.ended) or progress.says_done(text):
            self.whole = True
            return True
        return bool(_P.died.search(text)) or endings.killed(text)


def _usable(line: Line) -> str:
    """A line without what differs from run to run, "" where it may come at any time."""
    text = line.text.rstrip()
    if len(text) < SHORT or line.marked or _P.no_first.search(text[:300]):
        return ""
    return "" if events.TYPE.match(text) else _P.date.sub("D", _P.digits.sub("0", text[:160]))


def last(kept: list[Line]) -> tuple[list[Line], int, Line | None]:
    """The lines of the last run, how many runs came before it, how the one before it ended."""
    if any(_T.job in line.raw for line in kept):
        kept, jobs = _last_job(kept)
        if jobs:
            return kept, jobs, None
    start, runs = 0, [_Run()]
    one: bool | None = None
    for number, line in enumerate(kept):
        if runs[-1].over is not None:
            one = _of_one(kept) if one is None else one
            if _begins(kept, number, runs, one):
                start = number
                runs.append(_Run())
        runs[-1].read(line)
    return kept[start:], len(runs) - 1, runs[-2].over if start else None


def _of_one(kept: Sequence[Line]) -> bool:
    """Whether one process wrote all of it, as far as it shows."""
    lanes = {line.lane for line in kept if line.lane}
    return len(lanes) < 2 and not any(_P.several.search(line.raw[:600]) for line in kept)


def _begins(kept: Sequence[Line], at: int, runs: Sequence[_Run], one: bool) -> bool:
    """Whether a program begins at ``kept[at]``, behind the end of the last of ``runs``."""
    last, line = runs[-1], kept[at]
    alone = one and not (last.first and min(last.first.values()) > 1)
    if not (alone or last.whole):
        return False
    if any(word in line.raw for word in _T.starting):
        return not any(_P.node.search(other.raw) for other in kept[at : at + 3])
    if not any(line.text[:4] in run.fronts and _again(kept, at, run, alone) for run in runs):
        return False
    later = next((one.time for one in kept[at : at + AHEAD] if one.time), None)
    return later is None or last.time is None or later >= last.time


def _again(kept: Sequence[Line], at: int, run: _Run, alone: bool) -> bool:
    """Whether what ``run`` began with comes again."""
    same = run.first.keys() & set(map(_usable, kept[at : at + AHEAD]))
    enough = len(same) >= min(AGAIN, len(run.first)) and (alone or len(same) > 1)
    return enough and _usable(kept[at]) in run.first


def _last_job(kept: list[Line]) -> tuple[list[Line], int]:
    """LSF's report of a job stands before its output, or behind it; then it is read behind it."""
    heads = [n for n, line in enumerate(kept) if _T.job in line.raw]
    behind = [n for n, line in enumerate(kept) if _T.above in line.raw]
    if behind:
        fresh = behind[-1] < len(kept) - 20 and heads[-1] < behind[-1]  # another job began
        cuts = behind if fresh else behind[:-1]
        return kept[cuts[-1] + 1 if cuts else 0 :], len(cuts)
    job = kept[heads[-1] :]
    split = next((n for n, line in enumerate(job) if _T.below in line.raw), len(job))
    report, output = job[:split], job[split + 1 :]
    moved = [replace(line, at=job[-1].at + 1 + n) for n, line in enumerate(report)]
    return [*output, *moved], len(heads) - 1
