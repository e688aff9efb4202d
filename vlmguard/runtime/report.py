"""Findings as text for a terminal, and as JSON lines (``VLMGUARD_REPORT``).

``run``-scope findings are equal on every rank: only global rank 0 prints them. Each process
writes its own JSON file, ``.rankN`` or ``.rankN.wN`` (a dataloader worker) before the suffix: no
gathering.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vlmguard.core import settings
from vlmguard.core.findings import Finding, Spell, alternatives, cut
from vlmguard.core.runstate import RunState
from vlmguard.runtime import stderr
from vlmguard.runtime.ranks import rank, worker

__all__ = ["rank", "worker"]

WIDTH = 100
"""Columns of a terminal, of which a finding takes two lines at most."""
_UNJUDGED = "VG904"
_RAISED = "vlmguard.core.errors.Stop: "
_BRIEF = 35
"""Characters of an advice that stands behind a reason which is cut."""
_INDENT, _TO_DO = "    ", ". To do: "


def who() -> str:
    """``rank 1``, or ``rank 1, worker 0``."""
    number = worker()
    return f"rank {rank()}" + ("" if number is None else f", worker {number}")


def _file(report: str) -> Path:
    path = Path(report)
    number = worker()
    mark = f".rank{rank()}" + ("" if number is None else f".w{number}")
    return path.with_name(f"{path.stem}{mark}{path.suffix}")


def write(kind: str, data: dict[str, Any], state: RunState | None = None) -> None:
    """One JSON line, if a report is asked for. A disk that is full is said once, never raised."""
    report = _setting(state)
    if not report:
        return
    line = {
        "time": round(time.time(), 3),
        "kind": kind,
        "rank": rank(),
        "worker": worker(),
        "run": state.number if state else None,
        **data,
    }
    try:
        path = _file(report)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")
    except OSError as error:
        _once(f"report {report} cannot be written: {error}")


def lines(state: RunState | None = None, most: int = 64 << 20) -> Iterator[dict[str, Any]]:
    """What this process's report holds from earlier, from its last ``most`` bytes."""
    try:
        with _file(_setting(state)).open("rb") as file:
            file.seek(-min(most, file.seek(0, os.SEEK_END)), os.SEEK_END)
            kept = file.read().splitlines()
    except (OSError, ValueError):
        return
    for each in kept:
        try:
            found = json.loads(each)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _setting(state: RunState | None) -> str:
    try:
        used = state.settings.report if state else settings.get().report
    except Exception:
        used = ""
    return os.environ.get("VLMGUARD_REPORT") or used


@functools.cache
def _once(text: str) -> None:
    line(text)


def line(text: str) -> None:
    """One line on standard error."""
    stderr.say(text)


def say(
    finding: Finding, outcome: str = "", change: str = "", state: RunState | None = None
) -> None:
    """Print and record one finding.

    Args:
        outcome: "stopped", "warned", or "" for what was only noticed. "fixed": it would have
            failed, and the change was seen to hold. "set": the change is neutral, or has yet to
            show that it holds. "unjudged": it could not be looked at.
        change: what was done: "use_reentrant: True → False".
        state: the run that it is about; None for what is the process's.
    """
    spell = state.spell if state else None
    if finding.code == _UNJUDGED:
        outcome = outcome or "unjudged"
    if state is not None:
        state.counts[outcome or finding.level] += 1
        if outcome == "fixed" and finding.code not in state.fixed:
            state.fixed.append(finding.code)
    write("finding", {**finding.as_dict(spell), "outcome": outcome, "change": change}, state)
    if finding.scope == "run" and rank() != 0:
        return
    line(text(finding, outcome, change, state))


def text(
    finding: Finding, outcome: str = "", change: str = "", state: RunState | None = None
) -> str:
    """One finding as one or two lines. What has no room in them stands on the rule's page."""
    mark = f" [{who()}]" if finding.scope == "rank" else ""
    head = f"{finding.code} {outcome or finding.level}{mark}: "
    if outcome in ("fixed", "set"):
        return _done(head, finding, change)
    told = f"{head}{change}: {finding.why}" if change else f"{head}{finding.why}"
    spell = state.spell if state else None
    if change and len(stderr.PREFIX + told) > WIDTH:  # taken back: the first line said why
        told = f"{head}{change}"
    return _advised(told, finding, spell)


def reasons(findings: Sequence[Finding], spell: Spell | None = None) -> tuple[str, str]:
    """The text of a `Stop`, and the same uncut: every reason, every alternative.

    With the exception's name before it, the first one takes at most three lines: the reason of the
    first finding, cut if need be, and as much of its advice as fits.
    """
    codes = list(dict.fromkeys(finding.code for finding in findings))
    head = f"vlmguard stopped this run ({who()}). "
    end = f". To go on regardless: VLMGUARD_RULES={','.join(f'{code}=warn' for code in codes)}"
    every = "; ".join(_reason(each, each.advise(spell)) for each in findings)
    first, also = findings[0], f" (also {', '.join(codes[1:])})" if codes[1:] else ""
    room = 3 * WIDTH - len(f"{_RAISED}{head}{also}{end}")
    advice = alternatives(first.advice, spell)
    tried = ["; or ".join(advice[:number]) for number in range(len(advice), 0, -1)]
    tried += alternatives(first.advice, spell, flags_alone=True)[:1]
    told = [each for each in (_reason(first, a) for a in tried or [""]) if len(each) <= room]
    short = told[0] if told else _cut_reason(first, tried[-1] if tried else "", room)
    return f"{head}{short}{also}{end}", f"{head}{every}{end}"


def _cut_reason(finding: Finding, advice: str, room: int) -> str:
    """What happens loses its end first; an advice that is long stands in the finding's line."""
    if len(advice) > _BRIEF:
        advice = ""
    why = max(room - len(_reason(replace(finding, why=""), advice)) - 1, 20)
    return _reason(replace(finding, why=cut(finding.why, why)), advice)


def _reason(finding: Finding, advice: str) -> str:
    mark = "" if finding.why.endswith("?") else "."
    return f"{finding.code}: {finding.why}{mark} {advice}".rstrip(". ")


def fits(finding: Finding, outcome: str = "warned") -> bool:
    """Whether it takes two lines at most."""
    told = f"{stderr.PREFIX}{text(finding, outcome)}".splitlines()
    return sum(-(-len(line) // WIDTH) for line in told) <= 2


def _done(head: str, finding: Finding, change: str) -> str:
    """A change, all of it if there is room, and what it prevents."""
    why = f": {finding.why}"
    keep = f" (to keep yours: {finding.code}=off)"
    room = 2 * WIDTH - len(f"{stderr.PREFIX}{head}{why}{keep}")
    if len(change) > room and "; " in change:
        first, *more = change.split("; ")
        change = f"{first} and {len(more)} more"
    return f"{head}{change}{why}" + (keep if len(change) <= room else "")


def _advised(told: str, finding: Finding, spell: Spell | None) -> str:
    """``told``, and as many alternatives of the advice as fit, at least one."""
    every = alternatives(finding.advice, spell)
    if not every:
        return told
    one = alternatives(finding.advice, spell, flags_alone=True)[0]
    rest = f"; others: vlmguard rule {finding.code}"
    shorter = ["; or ".join(every[:number]) + rest for number in range(len(every) - 1, 0, -1)]
    if shorter and one != every[0]:
        shorter.append(one + rest)
    for advice in ("; or ".join(every), *shorter, every[0], one):
        if len(stderr.PREFIX + told) <= WIDTH and len(advice) <= WIDTH - len(_INDENT):
            return f"{told}\n{_INDENT}{advice}"
        flowing = f"{told}{_TO_DO[told.endswith('?') :]}{advice}"
        if len(stderr.PREFIX + flowing) <= 2 * WIDTH and "\n" not in told:
            return flowing
    return f"{told}\n{_INDENT}{every[0]}"


def summary(rules: int, state: RunState) -> str:
    """The line of the first step."""
    warnings = state.counts["warning"] + state.counts["warned"]
    return (
        f"{rules} rules watched, {mended(state)}, "
        f"{warnings} warning{'' if warnings == 1 else 's'}{unjudged(state)}"
    )


def mended(state: RunState) -> str:
    """What was fixed, and what was set and has yet to show that it holds."""
    codes = f" ({', '.join(sorted(state.fixed))})" if state.fixed else ""
    placed = f", {len(state.set)} set ({', '.join(sorted(state.set))})" if state.set else ""
    return f"{len(state.fixed)} fixed{codes}{placed}"


def unjudged(state: RunState) -> str:
    """What could not be looked at: notes that said so, and facts that were merely assumed."""
    facts = state.run.unjudged if state.run is not None else ()
    number = state.counts["unjudged"] + len(facts)
    named = f" ({', '.join(facts)})" if facts else ""
    return f", {number} unjudged{named}" if number else ""
