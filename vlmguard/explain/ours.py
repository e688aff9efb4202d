"""What vlmguard itself wrote in the run: its JSON report, and its lines in a log.

A report lies beside the logs, one file a process. Its header states the run's facts, its findings
are the objects that rules give: those of a log are the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

from vlmguard.explain.answer import Answer
from vlmguard.explain.digest import Digest
from vlmguard.explain.failure import Known
from vlmguard.explain.lines import Line
from vlmguard.explain.logfacts import Facts

LONGEST = 1 << 16  # bytes of one JSON line
MOST = 20000  # lines of one report
_LINE = re.compile(
    r"vlmguard: (VG\d{3}) (\w{3,12})(?: \[rank (\d{1,6})(?:, worker \d{1,4})?\])?: (.{1,600})"
)
_OUTCOMES = ("fixed", "set", "stopped", "warned", "unjudged", "explained", "error", "warning",
             "note")  # fmt: skip


@dataclass(frozen=True)
class Said:
    """One finding of the guard: its code, what became of it, who said it, and the whole entry."""

    code: str
    outcome: str
    why: str
    rank: int | None = None
    entry: dict[str, Any] = field(default_factory=dict)


@dataclass
class Report:
    """The header of one process's report, and its findings."""

    header: dict[str, Any] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)


def read(file: IO[bytes]) -> Report:
    """The report in ``file``; a line that is cut or spoilt is passed over."""
    report = Report()
    for _ in range(MOST):
        raw = file.readline(LONGEST)
        if not raw:
            break
        try:
            entry = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict):
            continue
        if entry.get("kind") == "header":
            report.header = entry
        elif entry.get("kind") == "finding" and re.fullmatch(r"VG\d{3}", str(entry.get("code"))):
            outcome = str(entry.get("outcome") or entry.get("level") or "")
            why = str(entry.get("why", ""))[:600]
            report.said.append(Said(entry["code"], outcome, why, _number(entry.get("rank")), entry))
    return report


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def facts(known: Facts, reports: Iterable[Report]) -> Facts:
    """``known``, with what the first header states put over it."""
    header = next((r.header for r in reports if r.header), None)
    if header is None:
        return known
    releases = header.get("releases")
    told = {str(k): str(v) for k, v in releases.items()} if isinstance(releases, dict) else {}
    return replace(
        known,
        framework=str(header.get("framework") or known.framework),
        strategy=str(header.get("strategy") or known.strategy),
        world=_number(header.get("world")) or known.world,
        releases={**known.releases, **told},
    )


def said(reports: Iterable[Report], digests: Iterable[Digest]) -> list[Said]:
    """Every finding that the run was told, each once: those of reports, then lines of logs."""
    found = [one for report in reports for one in report.said]
    seen = {(one.code, one.outcome) for one in found}
    for digest in digests:
        for line in digest.ours:
            one = _line(line)
            if one is not None and (one.code, one.outcome) not in seen:
                seen.add((one.code, one.outcome))
                found.append(one)
    once = {(one.code, one.outcome, one.why): one for one in found}
    return list(once.values())[:32]


def _line(line: Line) -> Said | None:
    match = _LINE.search(line.raw)
    if match is None or match[2] not in _OUTCOMES:
        return None
    rank = int(match[3]) if match[3] else line.rank
    return Said(match[1], match[2], match[4].strip(), rank)


def settled(answer: Answer, told: Sequence[Said], catalogue: Sequence[Known]) -> Answer:
    """``answer``, or the guard's own where the log itself tells no failure."""
    if answer.verdict != "unfinished":
        return answer
    by_code = {known.code: known for known in catalogue}
    for one in reversed(told):
        code = "VG571" if one.outcome == "stopped" else one.code
        if one.outcome in ("stopped", "explained") and code in by_code:
            how = "the guard's own report"
            ranks = () if one.rank is None else (one.rank,)
            return replace(answer, verdict="explained", known=by_code[code], ranks=ranks, how=how)
    return answer
