"""An answer as JSON or GitHub's annotation. All from the log is cleaned here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from vlmguard.core.annotations import annotation
from vlmguard_explain.advice import flags
from vlmguard_explain.cause.candidates import Answer
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.show import excerpt, headline, next_steps, show
from vlmguard_explain.source import clean

# The fields of vlmguard's finding in the run that a log's finding has, too.
_KEPT = "code level why scope advice evidence url outcome change rank".split()


def as_json(answer: Answer, digests: Sequence[Digest]) -> str:
    """One JSON object."""
    known, facts, found = answer.known, answer.facts, headline.finding(answer)
    steps = next_steps.of(answer, {}) if known else []
    place = answer.pick.event.where if answer.pick and answer.pick.event else None
    data: dict[str, Any] = {
        "verdict": answer.verdict,
        "headline": headline.headline(answer),
        "finding": found.as_dict() if found else None,
        "started": {
            "ranks": list(answer.ranks),
            "sure": answer.sure,
            "how": answer.how,
            "file": clean.shown(place[0]) if place else None,
            "line": place[1] if place else None,
            "code": headline.code(answer) or None,
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
        "change": [{"do": flags.plain(step.do), "cost": step.cost} for step in steps],
        "wrong": known.wrong if known else "",
        "prevented_by": list(known.prevented) if known else [],
        "zh": known.zh if known else "",
        "followed": [clean.shown(f) for f in answer.followed],
        "ranks_side_by_side": answer.table.rows() if answer.table else [],
        "evidence": [_line(line, digests) for line in answer.evidence],
        "context": [_line(line, digests) for line in excerpt.context(answer, digests)],
        "frames": [clean.shown(frame) for frame in excerpt.frames_of(answer, digests)],
        "guard": [_finding(one) for one in answer.guard],
    }
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def _finding(one: Any) -> dict[str, Any]:
    own = {key: one[key] for key in _KEPT if key in one}
    return {k: clean.shown(v) if isinstance(v, str) else v for k, v in own.items()}


def _line(line: Line, digests: Sequence[Digest]) -> dict[str, Any]:
    name = digests[line.source].source.name
    said = clean.shown(line.raw).strip()[: excerpt.LONGEST]
    return {"file": clean.shown(name), "line": line.number, "rank": line.rank, "text": said}


def github(answer: Answer, digests: Sequence[Digest]) -> str:
    """One workflow command; nothing of the log can be read as another one."""
    kind = {"finished": "notice", "unfinished": "warning"}.get(answer.verdict, "error")
    line = answer.evidence[0] if answer.evidence else None
    where: dict[str, object] = {}
    if line is not None and digests[line.source].source.path is not None:
        name = clean.shown(digests[line.source].source.name)
        where = {"file": name, "line": line.number}
    body = show.text(answer, digests, whole=True).strip().replace("\r", "")
    return annotation(kind, body, **where, title=headline.headline(answer)) + "\n"
