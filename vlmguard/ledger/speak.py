"""Says what the verdicts of one account come to: findings, the report's lines, one line when all
balances. It runs on rank 0, which judges for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.findings import Finding
from vlmguard.core.runstate import RunState
from vlmguard.ledger import line, scalars
from vlmguard.ledger.account import Account, Entry, Page, Verdict
from vlmguard.ledger.found import cause, sentence
from vlmguard.ledger.record import KIND, record
from vlmguard.runtime import report

SETTLED = 3
"""Windows after which the books are said to balance."""
LINES = 3
"""Lines that one code may take at a level; what else it finds is in the report."""


class Speaker:
    """Told of each window of one account, in their order."""

    def __init__(self, account: Account, state: RunState | None = None) -> None:
        self.account, self.state = account, state
        self._records: list[dict[str, Any]] | None = []
        self._said: set[tuple[str, ...]] = set()
        self._lines: Counter[tuple[str, ...]] = Counter()

    def window(self, verdicts: Sequence[Verdict], pages: Sequence[Page | None] = ()) -> None:
        """Report one window, and say what is new. Raises `Stop` where the user asked for it."""
        seen = record(self.account, verdicts, pages)
        with runstate.acting(self.state):
            report.write(KIND, seen)
            if self.state is not None and self.state.settings.log:
                self.state.kept[scalars.KEPT] = scalars.scalars(seen)
            self._settle(seen)
            self._judge([entry for verdict in verdicts for entry in verdict.entries])

    def close(self) -> None:
        """The run ends: one that was shorter than `SETTLED` windows gets its line now."""
        with runstate.acting(self.state):
            self._sum_up()

    def _settle(self, seen: dict[str, Any]) -> None:
        if self._records is not None:
            self._records.append(seen)
            if len(self._records) >= SETTLED:
                self._sum_up()

    def _sum_up(self) -> None:
        told = line.text(self._records) if self._records else ""
        self._records = None
        if told:
            report.line(told)

    def _judge(self, entries: Sequence[Entry]) -> None:
        """What is only shown never stops a run, whatever the policy."""
        new = [entry for entry in entries if self._new(entry)]
        for entry in new:
            if entry.level == "note" and _policy(entry.code) != "off":
                report.say(finding(entry))
        guard.judge([finding(entry) for entry in new if entry.level != "note"])

    def _new(self, entry: Entry) -> bool:
        """Once a run and cause: counts and steps of a later window make no new one."""
        key = cause(entry.code, entry.level, entry.what)
        if key in self._said or self._lines[key[:2]] >= LINES:
            return False
        self._said.add(key)
        self._lines[key[:2]] += 1
        return True


def _policy(code: str) -> str:
    return guard.in_force().policy(code, guard.default_policy(code))


def finding(entry: Entry) -> Finding:
    """An entry in the guard's words. Rank 0 says it for all ranks."""
    told = sentence(entry.why, entry.what, entry.size, entry.since)
    return Finding(entry.code, entry.level, told, advice=entry.advice)
