"""Says what the verdicts of one account come to: findings, the report's lines, one line when all
balances. It runs on rank 0, which judges for all."""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

from vlmguard import guard, run_report
from vlmguard.core.findings import Finding, tail
from vlmguard.core.runstate import RunState
from vlmguard.ledger.account import STATIONS, Account, Entry, Page, Verdict
from vlmguard.ledger.report import line, scalars
from vlmguard.ledger.report.found import cause, sentence
from vlmguard.ledger.report.record import KIND, record
from vlmguard.ledger.stations import repeated_rows
from vlmguard.runtime import report

SETTLED = 3
"""Windows after which the books are said to balance."""
LINES = 3
"""Lines that one code may take; what else it finds is in the report."""


class Speaker:
    """Told of each window of one account, in their order."""

    def __init__(self, account: Account, state: RunState | None = None) -> None:
        self.account, self.state = account, state
        self._records: list[dict[str, Any]] | None = []
        self._said: set[tuple[str, ...]] = set()
        self._lines: Counter[tuple[str, ...]] = Counter()

    def window(
        self,
        verdicts: Sequence[Verdict],
        pages: Sequence[Page | None] = (),
        account: Account | None = None,
    ) -> None:
        """Report one window, and say what is new. Raises `Stop` where the user asked for it.

        Args:
            account: as it was in this window, if it has changed.
        """
        seen = record(account or self.account, verdicts, pages)
        report.write(KIND, seen, self.state)
        if self.state is not None and self.state.settings.log:
            self.state.kept[scalars.KEPT] = scalars.scalars(seen)
        self._judge([entry for verdict in verdicts for entry in verdict.entries])
        self._settle(seen)

    def close(self) -> None:
        """The run ends: one of fewer windows than `SETTLED` gets its line now."""
        self._sum_up()

    def _settle(self, seen: dict[str, Any]) -> None:
        if self._records is not None:
            self._records.append(seen)
            if len(self._records) >= SETTLED:
                self._sum_up()

    def _sum_up(self) -> None:
        told = line.text(self._records) if self._records else ""
        self._records = None
        if told and (self.state is None or run_report.greets(self.state)):
            report.line(told)

    def _judge(self, entries: Sequence[Entry]) -> None:
        """Say the warnings. What is only shown, a note, is in the report: a healthy run may have
        some, and is told nothing."""
        warnings = (entry for entry in entries if entry.level != "note")
        guard.judge([finding(entry) for entry in warnings if self._new(entry)], self.state)

    def _new(self, entry: Entry) -> bool:
        """Once a run and cause: the numbers of a later window make no new one."""
        key = cause(entry.code, entry.level, entry.why, entry.what)
        if key in self._said or self._lines[key[:2]] >= LINES:
            return False
        if self._told(entry):
            return False
        self._said.add(key)
        self._lines[key[:2]] += 1
        return True

    def _told(self, entry: Entry) -> bool:
        """Whether VG302 has told the same of each of its towers. Where the user has the run stopped
        for it, it is not left out."""
        if self.state is None or not entry.towers:
            return False
        stops = self.state.settings.policy(entry.code, "warn") == "error"
        return not stops and self.state.no_gradient.issuperset(entry.towers)


def finding(entry: Entry) -> Finding:
    """An entry in the guard's words. Rank 0 says it for all ranks. If it has no room in two lines,
    it names the first tower alone, then no station, then no size and step: the report has them."""
    station = STATIONS[int(entry.code[3]) - 1]
    advice = tuple(entry.advice.split("; or ")) if entry.advice else ()
    what = _shorter(entry.what)
    why = entry.why.replace(entry.what, what) if entry.what else entry.why
    bare = re.sub(r" \([^()]*\)$", "", why.rstrip(". "))
    told = (
        sentence(entry.why, entry.what, entry.size, entry.since, station),
        sentence(why, what, entry.size, entry.since, station),
        sentence(why, what, entry.size, entry.since),
        sentence(why, what, None, None),
        sentence(bare, "" if what in why else what, None, None),
    )
    made = [Finding(entry.code, entry.level, each, advice=advice) for each in told]
    return next((each for each in made if report.fits(each)), made[3])


def _shorter(what: str) -> str:
    """ "12 of 20 vision tensors, 43 others"; of a single tensor the last parts of its name."""
    first, *more = what.split(", ")
    numbers = [re.match(r"\d+(?= of \d+ )", each) for each in more]
    if more and all(numbers):
        return f"{first}, {sum(int(each[0]) for each in numbers if each)} others"
    return what if " " in what else tail(what)


def listen(watcher: Any, state: RunState | None = None, *, recalls: bool = True) -> Speaker:
    """Have what a watcher judges be said.

    The watcher calls ``on_verdicts(step, verdicts)`` with ``account`` and ``pages`` as they were in
    that window, and ``on_close()`` after the last one.

    Args:
        recalls: whether a run that goes on should have other rows than before. At the beginning
            of an epoch it may rightly have the same.
    """
    speaker, held = Speaker(watcher.account, state), weakref.ref(watcher)
    if recalls and getattr(watcher, "first_step", 0) > 0:
        watcher.recall({"rows": {"earlier": repeated_rows.earlier(watcher.first_step, state)}})

    def told(step: int, verdicts: Sequence[Verdict]) -> None:
        found = held()
        if found is not None:
            speaker.window(verdicts, found.pages, found.account)

    watcher.on_verdicts, watcher.on_close = told, speaker.close
    return speaker
