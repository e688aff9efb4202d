"""The verdict over all logs of one run: what started it, on which rank, and what else they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vlmguard_explain.advice import steps
from vlmguard_explain.cause import attribution, candidates, no_exception, root
from vlmguard_explain.cause.candidates import Answer, device_assert
from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.run import endings, watchdog
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.run.logfacts import CARDS, Facts
from vlmguard_explain.tracebacks.event import flat

_WAIT, _START, _LATE, _ENDED = "VG505", "VG517", "VG551", "VG569"
_P = patterns("cause.judge")
_T = words("cause.judge")

_DRIVER = "VG537"
_NO_CARD = ("VG529", "VG559")
_HARDWARE = "VG534"
CLOSE = 6  # lines


def judge(digests: Sequence[Digest], facts: Facts) -> Answer:
    """Which of the things that happened started it."""
    ended = endings.first(e for d in digests for e in d.exits)
    found = candidates.with_lost_peers(candidates.collected(digests), digests, ended)
    found = candidates.with_exit_message(found, digests)
    answer = root.started(found, digests, ended)
    answer = answer or no_exception.verdict(digests)
    if answer.failure == _ENDED:
        answer = no_exception.no_numbers(digests) or answer
    world = facts.world or _ranks(digests)
    answer.table = watchdog.table((line for d in digests for line in d.watched), world)
    answer.facts = at_failure(answer, facts, digests)
    if answer.failure == _START and answer.pick is not None:
        said = f"{answer.facts.message} {answer.pick.line.raw}"
        if any(host in said for d in digests for host in d.unresolved):
            answer.explain("VG536")  # no rank was late: a host name has no address
    if answer.known is not None and answer.known.order in ("hang", "peer"):
        _what_it_did(answer, digests)
        attribution.waited_for(answer, found, digests)
    answer.facts = replace(answer.facts, seen=_seen(answer, digests))
    attribution.attribute(answer, digests)
    return answer


def _what_it_did(answer: Answer, digests: Sequence[Digest]) -> None:
    """A wait is another failure where one rank saved, evaluated, or still prepared its data."""
    if answer.failure == _WAIT and not (answer.table and answer.table.odd):
        if answer.facts.phase in ("evaluation", "save"):
            answer.explain(_LATE)
        # torch's own check compares the ranks that arrived
        elif "mismatch between collectives" not in answer.facts.message:
            answer.explain(_START if preparing(digests) else _WAIT)
    if answer.failure == _START and preparing(digests):
        answer.facts = replace(answer.facts, phase="data")


def _seen(answer: Answer, digests: Sequence[Digest]) -> frozenset[str]:
    """What the ranks tell together; see `Facts.seen`."""
    world = answer.facts.world or _ranks(digests)
    told = {
        "all wait": answer.table is not None and answer.table.everyone(world),
        "everywhere": bool(world and world > 1 and set(answer.alike) >= set(range(world))),
        "alone": alone(digests),
        "none killed": attribution.all_lived(answer.facts, digests),
        "rank files": attribution.each_its_own(digests),
    }
    return frozenset(word for word, holds in told.items() if holds)


def _ranks(digests: Sequence[Digest]) -> int | None:
    """How many ranks there are at least, where each up to the highest prints something."""
    ranks = {rank for d in digests for rank in d.finals if rank is not None}
    return len(ranks) if ranks and max(ranks) == len(ranks) - 1 else None


def at_failure(answer: Answer, facts: Facts, digests: Sequence[Digest]) -> Facts:
    """``facts`` with the failure's message, traceback, phase; the last step; who is gone."""
    last = max((s for d in digests for s in d.progress.steps), key=lambda s: s[1], default=None)
    facts = replace(facts, steps=(last[1], last[2]) if last else None)
    if answer.table is not None:
        gone = answer.table.gone
        said = {"absent": str(gone[0])} if gone else {}
        facts = replace(facts, fields={**facts.fields, **said})
    pick = answer.pick
    if pick is None:
        return facts
    name = digests[pick.line.source].source.name
    facts = replace(facts, log=name if name != "-" else "")
    event = pick.event.reason if pick.event else None
    if event is not None:
        phase = event.phase or phase_in_log(digests)
        message = flat(f"{event.type}: {event.message}")[:6000]
        return facts.at(message, phase, event)
    return facts.at(flat(pick.line.raw), phase_in_log(digests), device_assert(pick, digests))


def by_facts(answer: Answer, digests: Sequence[Digest]) -> Answer:
    """What a known bug, torch's warning of the driver and launchers' tables add."""
    said = answer.facts.message
    fault = steps.case(answer.facts)
    if fault is not None and fault.code:
        answer.explain(fault.code)
    if answer.known is not None:
        fields = {**answer.facts.fields, **_place(answer, digests)}
        answer.facts = replace(answer.facts, fields=fields)
    code = answer.failure
    warned = next((m for d in digests if (m := _P.warned.search(d.text))), None)
    if warned is not None and (code in _NO_CARD or (not code and _P.card.search(said))):
        # torch's warning gives the driver's number, and the program's message does not.
        answer.explain(_DRIVER)
        answer.facts = replace(answer.facts, message=f"{said} {warned[0]}")
    return answer


def _place(answer: Answer, digests: Sequence[Digest]) -> dict[str, str]:
    """The machine of the rank that failed, by torchrun's table, and its card."""
    if len(answer.ranks) != 1 or not answer.sure:
        return {}
    rank, alone = answer.ranks[0], (answer.facts.world or 0) <= CARDS
    rows = {int(row[1]): row for d in digests for row in _P.failed.findall(d.text)}
    node, _, card = rows.get(rank, ("", "", str(rank) if rank < CARDS and alone else ""))
    place = {"onenode": node} if len({host for host, _, _ in rows.values()}) > 1 else {}
    if card and answer.failure == _HARDWARE:
        place |= {"card": card, "failed": str(rank)}
    return place


def preparing(digests: Sequence[Digest]) -> bool:
    """Whether no step was taken yet, and a rank was still loading, tokenizing or downloading."""
    if any(d.progress.steps for d in digests):
        return False
    return alone(digests) or any(_works(d) for d in digests)


def alone(digests: Sequence[Digest]) -> bool:
    """Whether the others waited for one that does the work alone, before any step."""
    names = {name for d in digests for e in d.events for _, _, name in e.frames}
    return not names.isdisjoint(_T.alone) and not any(d.progress.steps for d in digests)


def _works(digest: Digest) -> bool:
    """A bar that is not full, or an announcement close before the first wait."""
    told, said = digest.progress, digest.progress.preparing
    match = _P.part.search(told.loading.text) if told.loading is not None else None
    if match is not None and int(match[1]) < 100:
        return True
    end = digest.watched[0] if digest.watched else told.final
    return said is not None and end is not None and 0 <= end.number - said.number <= CLOSE


def phase_in_log(digests: Sequence[Digest]) -> str:
    """Evaluation or saving, where the log says that one had begun and no step came after it."""
    for told in (digest.progress for digest in digests):
        bar, start = told.loading, max(told.evaluating, told.saving)
        behind = told.steps and bar is not None and bar.at > told.steps[-1][0]
        if behind and bar is not None and not _P.of_a_step.search(bar.text[:120]):
            return "evaluation"  # a bar that is not the training's
        if start >= 0 and not told.resumed(start):
            return "evaluation" if told.evaluating > told.saving else "save"
    return ""
