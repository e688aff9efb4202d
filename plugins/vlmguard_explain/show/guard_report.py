"""What vlmguard itself wrote in the run: its JSON reports beside the logs, its lines in a log."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import IO, Any

from vlmguard_explain.cause.candidates import Answer
from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.match.catalogue import by_code
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.run.logfacts import Facts

_P = patterns("show.guard_report")
_T = words("show.guard_report")

LONGEST = 1 << 16  # bytes of one JSON line
MOST = 20000  # lines of one report
SHOWN = 32  # findings
Entry = dict[str, Any]  # a header, or a finding: its code, what became of it, why, its rank


def read(file: IO[bytes]) -> list[Entry]:
    """The header and the findings in a report; a line that is cut or spoilt is passed over."""
    found = []
    for raw in islice(iter(lambda: file.readline(LONGEST), b""), MOST):
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(raw)
            if isinstance(entry, dict) and entry.get("kind") in ("header", "finding"):
                found.append(entry)
    return found


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def facts(known: Facts, entries: Sequence[Entry]) -> Facts:
    """``known``, with what the last header states put over it."""
    header = next((one for one in reversed(entries) if one["kind"] == "header"), None)
    if header is None:
        return known
    stated = header.get("releases")
    releases = {str(k): str(v) for k, v in stated.items()} if isinstance(stated, dict) else {}
    return replace(
        known,
        framework=str(header.get("framework") or known.framework),
        strategy=str(header.get("strategy") or known.strategy),
        world=_number(header.get("world")) or known.world,
        releases={**known.releases, **releases},
    )


def said(entries: Iterable[Entry], digests: Iterable[Digest]) -> list[Entry]:
    """Each finding once: those of reports, then those that only a log's lines have."""
    found: list[Entry] = []
    for one in entries:
        if one["kind"] == "finding" and re.fullmatch(r"VG\d{3}", str(one.get("code"))):
            outcome, why = one.get("outcome") or one.get("level"), str(one.get("why", ""))[:600]
            rank = _number(one.get("rank"))
            found.append({**one, "outcome": str(outcome or ""), "why": why, "rank": rank})
    seen = {(one["code"], one["outcome"]) for one in found}
    for line in (line for digest in digests for line in digest.guard_lines):
        match = _P.line.search(line.raw)
        if match and match[2] in _T.outcomes and (match[1], match[2]) not in seen:
            seen.add((match[1], match[2]))
            rank = int(match[3]) if match[3] else line.rank
            why = match[4].strip()
            found.append({"code": match[1], "outcome": match[2], "why": why, "rank": rank})
    once = {(one["code"], one["outcome"], one["why"]): one for one in found}
    return list(once.values())[:SHOWN]


def decided(answer: Answer, findings: Sequence[Entry]) -> Answer:
    """``answer``, or vlmguard's own where the log itself shows no failure."""
    if answer.verdict != "unfinished":
        return answer
    for one in reversed(findings):
        code = "VG571" if one["outcome"] == "stopped" else one["code"]
        if one["outcome"] in ("stopped", "explained") and code in by_code():
            how = "the guard's own report"
            ranks = () if one["rank"] is None else (one["rank"],)
            return replace(answer, verdict="explained", known=by_code()[code], ranks=ranks, how=how)
    return answer
