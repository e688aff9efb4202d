"""The first line of an answer, and what the lines below it say of where and in which run."""

from __future__ import annotations

import os

from vlmguard.core.findings import Finding
from vlmguard_explain.advice import flags, steps
from vlmguard_explain.cause.candidates import Answer
from vlmguard_explain.lazy import words
from vlmguard_explain.run import watchdog
from vlmguard_explain.source import clean
from vlmguard_explain.tracebacks import frames

_T = words("show.headline")

LONGEST = 400  # characters


def finding(answer: Answer) -> Finding | None:
    """The answer as the object that rules give, or None for an end that is no known failure."""
    if answer.known is None:
        return None
    known = answer.known
    why = clean.shown(steps.cause(known, answer.facts))
    advice = "; or ".join(flags.say(do, answer.facts) for do in steps.steps(known, answer.facts))
    return Finding(known.code, "error", why, scope="rank", advice=advice, evidence=known.evidence)


def headline(answer: Answer) -> str:
    """The code, what happened, on which rank."""
    who = f" ({ranks(answer)})" if answer.ranks else ""
    if answer.known is not None:
        return f"{answer.known.code} {answer.known.title}{who}"
    if answer.verdict == "unknown":
        event = answer.pick.event if answer.pick else None
        said = "a process failed and printed no reason"
        if event is not None:
            said = f"{event.type}: {_first(event.message)}" if event.type else _T.cut
        if event is not None and event.cause is not None:
            said += f", after {event.cause.type}: {_first(event.cause.message)}"
        return clean.shown(f"not known: {said}{who}")[:LONGEST]
    if answer.verdict == "finished":
        return "finished: the log marks the end of training, and no failure after it"
    return f"unfinished: {last_step(answer) or 'no training step in the log'}, no end marker"


def first(answer: Answer, width: int) -> list[str]:
    """The headline with the place, on one line; in Chinese, too, where that is asked for."""
    said, at = headline(answer), place(answer)
    at = f" at {'…' * (len(at) > width // 2)}{at[-width // 2 :]}" if at else ""
    said = said if len(said) + len(at) <= width else f"{said[: width - len(at) - 2]} …"
    zh = answer.known.zh if answer.known is not None else _T.zh[answer.verdict]
    return [f"{said}{at}", *([zh] if chinese() else [])]


def chinese() -> bool:
    """``VLMGUARD_LANG=zh``: a Chinese line with each explanation, of logs and in runs."""
    return os.environ.get("VLMGUARD_LANG", "").lower().startswith("zh")


def _first(message: str) -> str:
    return next((line.strip() for line in message.split("\n") if line.strip()), "")[:240]


def last_step(answer: Answer) -> str:
    """The last training step, where the log has one."""
    number, of = answer.facts.steps or (None, None)
    return "" if number is None else f"last step {number}{f' of {of}' if of else ''}"


def ranks(answer: Answer) -> str:
    """On which rank it started."""
    named = watchdog.ranks(answer.ranks) if answer.ranks else ""
    return named if answer.sure or not named else f"one of {named}"


def place(answer: Answer) -> str:
    """File and line, and who was there if that is not the rank on which it started."""
    pick = answer.pick
    where = pick.event.where if pick and pick.event else None
    if pick is None or where is None:
        return ""
    seen = ""
    if pick.rank is not None and pick.rank not in answer.ranks:
        seen = f"seen by rank {pick.rank} at "
    elif answer.how.startswith(_T.of_others):
        seen = "seen by another rank at "
    return clean.shown(f"{seen}{where[0]}:{where[1]} in {where[2]}")


def code(answer: Answer) -> str:
    """The line of source at that place, where the traceback prints it."""
    event = answer.pick.event if answer.pick else None
    trace = event.trace if event else []
    at = [n for n, text in enumerate(trace) if event and frames.of(text) == event.where]
    said = frames.code_under(trace, at[-1]) if at else ""
    return "" if said.startswith("raise ") else clean.shown(said)  # the message tells it


def how(answer: Answer) -> str:
    """How the rank is known, the phase of the run, which ranks show the same."""
    by = f"{'by ' if answer.how.startswith(_T.by) else ''}{answer.how}"
    phase = answer.facts.phase
    parts = [ranks(answer) or "not in the log", by, phase and f"in {phase}"]
    if len(answer.alike) > 1 and set(answer.alike) > set(answer.ranks):
        parts.append(f"the first of {watchdog.ranks(answer.alike)}, which failed alike")
    return clean.shown(", ".join(filter(None, parts)))


def run(answer: Answer) -> str:
    """Framework, releases, strategy, ranks, batch, last step, as far as the log has them."""
    facts = answer.facts
    parts = [facts.framework or "framework not in the log", facts.strategy]
    parts += [f"{name} {release}" for name, release in facts.releases.items()][:7]
    parts += [f"{facts.world} rank{'s' if facts.world > 1 else ''}"] if facts.world else []
    if facts.micro:
        parts.append(f"micro-batch {facts.micro} × accumulation {facts.accumulation or '?'}")
    return clean.shown(", ".join(filter(None, [*parts, last_step(answer)])))
