"""A failure that is not in the catalogue: what can be said of it, and what its steps need."""

from __future__ import annotations

from vlmguard_explain.advice import packages, upstream
from vlmguard_explain.advice.values import Values, quoted
from vlmguard_explain.cause.answer import Answer
from vlmguard_explain.cause.candidates import launchers
from vlmguard_explain.lazy import words
from vlmguard_explain.run.logfacts import Facts
from vlmguard_explain.source import clean
from vlmguard_explain.tracebacks.event import flat

_T = words("show.unknown")


def cause(answer: Answer) -> str:
    """What the log shows."""
    if answer.code in (-6, 134):
        return str(_T.aborted)
    event = answer.pick.event if answer.pick else None
    return str(_T.launcher if event is None or launchers(event) else _T.first)


def values(answer: Answer) -> dict[str, str]:
    """Name → value for `[[unknown_step]]` of ``tables/show.toml``, quoted for a shell."""
    event = answer.pick.event if answer.pick else None
    found = {"raised": " ".join(packages.raised_in(event.frames))} if event is not None else {}
    found["package"] = found.get("raised", "").partition(" ")[0]
    if event is None or launchers(event):
        said = " ".join(line.raw for line in answer.evidence)
        told = (name for mark, name in _T.launchers.items() if mark in said)
        return {**found, "lastlines": next(told, "other"), "aborted": str(answer.code in (-6, 134))}
    said = clean.shown(flat(f"{event.type}: {event.message}")).strip()
    found["advised"] = Values(Facts(message=said)).get("advised", "")
    place = event.where
    if place is not None:
        found.update(file=quoted(place[0]), lines=f"{max(place[1] - 8, 1)},{place[1] + 3}p")
    return {**found, "newer": upstream.update(event), "untraced": "" if event.frames else "true"}
