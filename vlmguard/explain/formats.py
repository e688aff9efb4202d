"""An answer as JSON or GitHub's annotation. All from the log is cleaned here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from vlmguard.core.annotations import annotation
from vlmguard.explain import around, clean, excerpt, flags, show
from vlmguard.explain.answer import Answer
from vlmguard.explain.digest import Digest
from vlmguard.explain.lines import Line


def as_json(answer: Answer, digests: Sequence[Digest]) -> str:
    """One JSON object."""
    found = show.finding(answer)
    place = answer.pick.event.where if answer.pick and answer.pick.event else None
    facts = answer.facts
    data: dict[str, Any] = {
        "verdict": answer.verdict,
        "headline": show.headline(answer),
        "finding": found.as_dict() if found else None,
        "started": {
            "ranks": list(answer.ranks),
            "sure": answer.sure,
            "how": answer.how,
            "file": clean.shown(place[0]) if place else None,
            "line": place[1] if place else None,
            "code": "".join(clean.shown(one) for one in show.code(answer)) or None,
            "phase": facts.phase,
        },
        "run": {
            "framework": facts.framework,
            "releases": dict(facts.releases),
            "strategy": facts.strategy,
            "world": facts.world,
            "use_reentrant": facts.use_reentrant,
            "micro_batch": facts.micro,
            "accumulation": facts.accumulation,
            "last_step": facts.steps[0] if facts.steps else None,
            "steps": facts.steps[1] if facts.steps else None,
        },
        "earlier_runs": sum(digest.before for digest in digests),
        "change": _changes(answer),
        "wrong": answer.known.wrong if answer.known else "",
        "prevented_by": list(answer.known.rules(answer.facts)) if answer.known else [],
        "zh": answer.known.zh if answer.known else "",
        "followed": [clean.shown(f) for f in answer.followed],
        "ranks_side_by_side": answer.table.rows() if answer.table else [],
        "evidence": [_evidence(line, digests) for line in answer.evidence],
        "context": [_evidence(line, digests) for line in around.of(answer, digests)],
        "frames": [clean.shown(frame) for frame in around.frames_of(answer, digests)],
        "guard": [_said(one) for one in answer.guard],
    }
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def _said(one: Any) -> dict[str, Any]:
    """A finding that the guard gave in the run, in the form in which a log's is given."""
    kept = ("code", "level", "why", "scope", "advice", "evidence", "url", "outcome", "change")
    entry = {key: one.entry[key] for key in kept if key in one.entry}
    told = {**entry, "code": one.code, "outcome": one.outcome, "why": one.why, "rank": one.rank}
    return {k: clean.shown(v) if isinstance(v, str) else v for k, v in told.items()}


def _changes(answer: Answer) -> list[dict[str, str]]:
    if answer.known is None:
        return []
    dos = answer.known.remedies(answer.facts)
    return [{"do": clean.shown(flags.say(do, answer.facts)), "cost": do.cost} for do in dos]


def _evidence(line: Line, digests: Sequence[Digest]) -> dict[str, Any]:
    name = digests[line.source].source.name if line.source < len(digests) else "?"
    said = clean.shown(line.raw).strip()[: excerpt.LONGEST]
    return {"file": clean.shown(name), "line": line.number, "rank": line.rank, "text": said}


def github(answer: Answer, digests: Sequence[Digest]) -> str:
    """One workflow command; nothing of the log can be read as another one."""
    kind = {"finished": "notice", "unfinished": "warning"}.get(answer.verdict, "error")
    place = answer.evidence[0] if answer.evidence else None
    where: dict[str, object] = {}
    if place is not None and digests[place.source].source.path is not None:
        where = {"file": _flat(clean.shown(digests[place.source].source.name)),
                 "line": place.number}  # fmt: skip
    body = show.text(answer, digests).strip().replace("\r", "")
    return annotation(kind, body, **where, title=_flat(show.headline(answer))) + "\n"


def _flat(value: str) -> str:
    return value.replace("\r", "").replace("\n", " ")
