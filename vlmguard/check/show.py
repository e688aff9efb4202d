"""An answer as text, JSON, SARIF, or annotations for GitHub. Secrets are blacked out in all."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from vlmguard import __version__
from vlmguard.check import judge, redact
from vlmguard.check.answer import Answer
from vlmguard.check.judge import Verdict
from vlmguard.check.script import Reading
from vlmguard.check.shell.state import Call, Trace, scheduled
from vlmguard.core.annotations import annotation

_SHELLS_OWN = {"PWD", "OLDPWD", "SHLVL", "_"}
_MOST = 30
"""Commands that the text names one by one, and words of each."""
_FEW = 12
"""Things of one kind that are not known of a command, and are named."""
_LONG = 800
"""Characters of a reason from which its middle is left out."""
_SARIF = {"error": "error", "warning": "warning", "note": "note"}


def line(words: Sequence[str], trace: Trace) -> str:
    """A command as one would type it, with what is not known in words."""
    shown = redact.words([trace.shown(word) for word in words])
    return " ".join(word if "‹" in word else shlex.quote(word) for word in shown)


def mended(verdict: Verdict, trace: Trace) -> str:
    """The command with the edits, with the variables that its script sets for it."""
    env = verdict.job.env
    set_here = {name: value for name, value in env.items()
                if os.environ.get(name) != value and name not in _SHELLS_OWN
                and not scheduled(name)}  # fmt: skip
    pairs = [f'{name}="${name}"' if redact.secret(name) else
             f"{name}={shlex.quote(redact.text(trace.shown(value)))}"
             for name, value in set_here.items()]  # fmt: skip
    return " ".join([*pairs, line(verdict.command, trace)])


# Text


def text(answer: Answer, strict: bool) -> str:
    """For a terminal."""
    lines = [_first(answer, strict)]
    alike: dict[str, list[Verdict]] = {}
    for verdict in answer.verdicts:
        alike.setdefault(_gist(verdict), []).append(verdict)
    shown = sorted(alike.values(), key=lambda each: each[0].code(strict) or 3)[:_MOST]
    for first, *others in shown if len(alike) > _MOST else alike.values():
        lines += _verdict(first, answer)
        if others:
            lines.append(f"  and {len(others)} more commands of this line, of which this is true")
    if len(alike) > _MOST:
        lines.append(f"and {len(alike) - _MOST} commands more (all with --format json)")
    lines += _rest(answer)
    lines.append(_looked(answer))
    return "\n".join(lines)


def _gist(verdict: Verdict) -> str:
    """What the answer tells about a command: the same for each round of a loop."""
    said = (verdict.state, verdict.reason, verdict.findings, verdict.edits, verdict.unread)
    return repr((_where(verdict), *said))


def _where(verdict: Verdict) -> str:
    call = verdict.job.call
    place = f"{call.source}:{call.line}" if call.line else call.source
    return place + ("" if call.certain else " (may not run: its condition is not known)")


def _verdict(verdict: Verdict, answer: Answer) -> Iterator[str]:
    trace = answer.reading.trace
    words = [*verdict.job.prefix, *verdict.job.argv][:_MOST]
    yield f"{_where(verdict)}: {line(words, trace)[:160]}"
    if verdict.state != judge.JUDGED:
        yield f"  {verdict.state}: {_shortened(redact.text(verdict.reason))}"
        return
    run = verdict.run
    assert run is not None
    release = run.releases.get(run.framework, "")
    ranks = f"{run.world} rank{'s' if run.world != 1 else ''}"
    yield f"  {run.framework} {release}, {run.strategy}, {ranks}, {run.tuning}"
    for (finding, outcome), advice in zip(verdict.findings, verdict.advice, strict=True):
        yield f"  {finding.code} {finding.level}: {finding.why}"
        if advice:
            yield f"      {advice}"
        if outcome == "fixed":
            yield "      vlmguard fixes this in the run"
    if not verdict.findings:
        yield "  nothing found"
    yield from _edits(verdict, trace)
    for what in verdict.settled:
        yield f"  the framework settles: {what}"
    for what in verdict.renamed:
        yield f"  {what}"
    for what in verdict.switched:
        yield f"  {what}"
    yield from _some("  not looked at: ", map(redact.text, verdict.unread))
    if verdict.doubts:
        yield "  not known before the run:"
        yield from _some("    ", (redact.text(trace.shown(doubt)) for doubt in verdict.doubts))


def _some(before: str, items: Iterable[str]) -> Iterator[str]:
    """Each in a line, up to a number that fits on a screen."""
    every = list(items)
    yield from (f"{before}{item}" for item in every[:_FEW])
    if len(every) > _FEW:
        yield f"{before}{len(every) - _FEW} more"


def _shortened(reason: str) -> str:
    """Its beginning and its end: a framework names every option that it does not know."""
    return reason if len(reason) <= _LONG else f"{reason[: _LONG // 2]} … {reason[-_LONG // 4 :]}"


def _edits(verdict: Verdict, trace: Trace) -> Iterator[str]:
    for what in verdict.guarded:
        yield f"  with vlmguard: {what}"
    if not verdict.edits:
        return
    for edit in verdict.edits:
        before = redact.text(trace.shown(verdict.before.get(edit.flag, "")))
        if before:
            yield f"  - {edit.flag} {shlex.quote(before)}"
        if edit.after is not None:
            yield f"  + {edit.flag} {shlex.quote(edit.after)}"
    whole = mended(verdict, trace)
    yield "  the whole command:" + (" (fill in the values in ‹›)" if "‹" in whole else "")
    yield f"    {whole}"


def _rest(answer: Answer) -> Iterator[str]:
    reading = answer.reading
    for remark in reading.refused:
        yield f"{remark.source}:{remark.line}: not understood: {redact.text(remark.text)}"
    for remark in reading.remarks:
        yield f"{remark.source}:{remark.line}: {redact.text(reading.trace.shown(remark.text))}"
    for call, trains in zip(reading.unseen, answer.hidden, strict=True):
        told = "; it seems to train: check what is in it by itself" if trains else ""
        yield f"{call.source}:{call.line}: not seen inside: {_short(call, reading.trace)}{told}"
    shown = reading.skipped[:_MOST]
    if shown:
        yield "not started:"
    yield from (f"  {call.line}: {_short(call, reading.trace)}" for call in shown)
    if len(reading.skipped) > len(shown):
        yield f"  and {len(reading.skipped) - len(shown)} more"


def _looked(answer: Answer) -> str:
    """What this answer rests on, and what nobody looked at."""
    looked: dict[str, list[str]] = {
        judge.JUDGED: [],
        judge.WRONG: [],
        judge.NOTHING: [],
        judge.CANNOT: [],
    }
    for verdict in answer.verdicts:
        looked[verdict.state].append(verdict.job.target)
    seen = dict.fromkeys(looked[judge.JUDGED] + looked[judge.WRONG] + looked[judge.NOTHING])
    unread = [what for verdict in answer.verdicts for what in verdict.unread]
    others = list(dict.fromkeys([*looked[judge.CANNOT], *unread, *unseen(answer.reading)]))
    trace = answer.reading.trace
    shown = [redact.text(trace.shown(word)) for word in (several(list(seen)), several(others))]
    return f"looked at: {shown[0] or 'nothing'}; not looked at: {shown[1] or 'nothing'}"


def unseen(reading: Reading) -> list[str]:
    """What of a script was not looked at: lines that are not understood, programs."""
    every = (*reading.unseen, *reading.skipped)
    calls = [reading.trace.shown(_program(call)) for call in every]
    parts = [f"line {remark.line}" for remark in reading.refused]
    return list(dict.fromkeys([*parts, *calls]))


def several(words: Sequence[str], most: int = 6) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _program(call: Call) -> str:
    alone = len(call.words) < 2 or call.words[1][:1] in ("-", "/")
    return os.path.basename(call.words[0]) if alone else " ".join(redact.words(call.words[:2]))[:40]


def _short(call: Call, trace: Trace) -> str:
    told = line(call.words[:_MOST], trace)
    return told if len(told) < 110 else told[:107] + "…"


def _first(answer: Answer, strict: bool) -> str:
    """The verdict on all of it."""
    count = len(answer.verdicts)
    judged = sum(verdict.state == judge.JUDGED for verdict in answer.verdicts)
    levels = [finding.level for verdict in answer.verdicts for finding, _ in verdict.findings]
    told = ", ".join(
        f"{levels.count(level)} {level}{'s' if levels.count(level) != 1 else ''}"
        for level in ("error", "warning", "note")
        if level in levels
    )
    end = {0: "nothing above a note", 1: "will go wrong", 2: "cannot tell"}[answer.code(strict)]
    if not count:
        return f"{end if answer.code(strict) else 'nothing to judge'}: no training command"
    commands = f"{count} command{'s' if count != 1 else ''}"
    return f"{end}: {commands}, {judged} judged{', ' + told if told else ''}"


# Data


def data(answer: Answer, strict: bool) -> dict[str, Any]:
    """Plain data for JSON."""
    trace = answer.reading.trace
    return {
        "vlmguard": __version__,
        "source": answer.reading.name,
        "exit": answer.code(strict),
        "jobs": [_job(verdict, trace) for verdict in answer.verdicts],
        "unseen": [_call(call, trace) for call in answer.reading.unseen],
        "skipped": [_call(call, trace) for call in answer.reading.skipped],
        "not_understood": [_remark(remark, trace) for remark in answer.reading.refused],
        "looked": redact.text(_looked(answer)),
        "remarks": [_remark(remark, trace) for remark in answer.reading.remarks],
        "would_write": sorted(answer.reading.trace.written),
    }


def _call(call: Call, trace: Trace) -> dict[str, Any]:
    return {"line": call.line, "source": call.source, "command": line(call.words, trace)}


def _remark(remark: Any, trace: Trace) -> dict[str, Any]:
    told = redact.text(trace.shown(remark.text))
    return {"line": remark.line, "source": remark.source, "text": told}


def _job(verdict: Verdict, trace: Trace) -> dict[str, Any]:
    run, call = verdict.run, verdict.job.call
    return {
        "line": call.line,
        "source": call.source,
        "certain": call.certain,
        "command": line([*verdict.job.prefix, *verdict.job.argv], trace),
        "state": verdict.state,
        "reason": redact.text(verdict.reason),
        "framework": verdict.framework,
        "strategy": run.strategy if run else "",
        "world": run.world if run else verdict.job.world,
        "releases": dict(run.releases) if run else {},
        "findings": [
            {"code": f.code, "level": f.level, "why": f.why, "advice": advice,
             "outcome": outcome, "evidence": f.evidence, "url": f.url}
            for (f, outcome), advice in zip(verdict.findings, verdict.advice, strict=True)
        ],
        "edits": [
            {"flag": e.flag, "before": redact.text(trace.shown(verdict.before.get(e.flag, ""))),
             "after": e.after}
            for e in verdict.edits
        ],
        "mended": mended(verdict, trace) if verdict.edits else "",
        "guarded": list(verdict.guarded),
        "not_known": [redact.text(trace.shown(doubt)) for doubt in verdict.doubts],
        "renamed": list(verdict.renamed),
        "settled": list(verdict.settled),
        "switched_off": list(verdict.switched),
        "not_looked_at": [redact.text(what) for what in verdict.unread],
    }  # fmt: skip


def as_json(answers: Sequence[Answer], strict: bool) -> str:
    made = [data(answer, strict) for answer in answers]
    return json.dumps(made[0] if len(made) == 1 else made, indent=2, ensure_ascii=False)


def _results(answers: Iterable[Answer]) -> Iterator[tuple[str, str, str, str, int]]:
    """(code, level, text, file, line) of everything that has a place."""
    for answer in answers:
        trace = answer.reading.trace
        for verdict in answer.verdicts:
            call = verdict.job.call
            place = (call.source, max(call.line, 1))
            for (finding, _), advice in zip(verdict.findings, verdict.advice, strict=True):
                told = f"{finding.why}. {advice}".rstrip(". ")
                yield finding.code, finding.level, told, *place
            if verdict.state in (judge.WRONG, judge.CANNOT):
                level = "error" if verdict.state == judge.WRONG else "warning"
                code = "refused-command" if verdict.state == judge.WRONG else "cannot-tell"
                yield code, level, redact.text(verdict.reason), *place
            for what in verdict.unread:
                yield "cannot-tell", "warning", f"not looked at: {redact.text(what)}", *place
        for call, hides in zip(answer.reading.unseen, answer.hidden, strict=True):
            if hides:
                told = f"not seen inside: {line(call.words, trace)}"
                yield "cannot-tell", "warning", told, call.source, max(call.line, 1)
        for remark in answer.reading.refused:
            told = f"not understood: {redact.text(trace.shown(remark.text))}"
            yield "cannot-tell", "warning", told, remark.source, max(remark.line, 1)


def sarif(answers: Sequence[Answer]) -> str:
    """SARIF 2.1.0."""
    found = list(_results(answers))
    driver = {
        "name": "vlmguard",
        "version": __version__,
        "rules": [{"id": code} for code in sorted({code for code, *_ in found})],
    }
    results = [
        {
            "ruleId": code,
            "level": _SARIF[level],
            "message": {"text": told},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": name},
                        "region": {"startLine": number},
                    }
                }
            ],
        }
        for code, level, told, name, number in found
    ]
    return json.dumps(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "results": results}],
        },
        indent=2,
        ensure_ascii=False,
    )


def github(answers: Sequence[Answer]) -> str:
    """Workflow commands: one annotation a finding."""
    words = {"error": "error", "warning": "warning", "note": "notice"}
    return "\n".join(
        annotation(words[level], told, file=name, line=number, title=code)
        for code, level, told, name, number in _results(answers)
    )
