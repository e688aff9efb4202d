"""The run's facts at its failure: what it was doing, on which machine; and what these make of a
message that says something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vlmguard_explain.advice import steps
from vlmguard_explain.cause.answer import Answer, device_assert
from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.match.catalogue import Known
from vlmguard_explain.run.digest import Digest
from vlmguard_explain.run.logfacts import CARDS, Facts
from vlmguard_explain.tracebacks.event import flat

_P = patterns("cause.failure")
_T = words("cause.failure")

_DRIVER, _NOT_GATHERED = "VG537", "VG523"
_NO_CARD = ("VG529", "VG559")
_HARDWARE = "VG534"
CLOSE = 6  # lines


def at_failure(answer: Answer, facts: Facts, digests: Sequence[Digest]) -> Facts:
    """``facts`` with the failure's message, traceback, phase; the last step; who is gone."""
    last = max((s for d in digests for s in d.progress.steps), key=lambda s: s[1], default=None)
    facts = replace(facts, steps=(last[1], last[2]) if last else None)
    if answer.table is not None:
        gone = answer.table.gone
        said = {"absent": str(gone[0])} if gone else {}
        facts = replace(facts, fields={**facts.fields, **said})
        if facts.world and (answer.table.size or 0) > facts.world:
            facts = replace(facts, world=answer.table.size)  # all ranks', not one node's
    pick = answer.pick
    if pick is None:
        return facts
    name = digests[pick.line.source].source.name if pick.line.source < len(digests) else ""
    facts = replace(facts, log=name if name != "-" else "")
    event = pick.event.reason if pick.event else None
    if event is not None:
        phase = event.phase or phase_in_log(digests)
        message = flat(f"{event.type}: {event.message}")[:6000]
        return facts.at(message, flat(" ".join(event.trace)), phase)
    later = flat(answer.evidence[-1].raw) if len(answer.evidence) > 1 else ""
    behind = device_assert(pick, digests)
    trace = flat(" ".join(behind.trace)) if behind else later if "'loss': " in later else ""
    return facts.at(flat(pick.line.raw), trace, phase_in_log(digests))


def by_facts(answer: Answer, catalogue: Sequence[Known], digests: Sequence[Digest]) -> Answer:
    """Under ZeRO-3 an index into a table of 0 rows is a weight that was not gathered; and more."""
    by_code, said = {known.code: known for known in catalogue}, answer.facts.message
    empty = "IndexError" in said and _P.empty.search(said.rstrip()) is not None
    if answer.known is None and empty and answer.facts.zero == 3:
        answer.explain(by_code[_NOT_GATHERED])
    fault = steps.case(answer.facts)
    if fault is not None and fault.code:
        answer.explain(by_code[fault.code])
    if answer.known is not None:
        answer.facts = replace(
            answer.facts, fields={**answer.facts.fields, **_place(answer, digests)}
        )
    code = answer.known.code if answer.known is not None else ""
    warned = next((m for d in digests if (m := _P.warned.search(d.text))), None)
    if warned is not None and (code in _NO_CARD or (not code and _P.card.search(said))):
        # The driver's own number stands in torch's warning, not in what the program said of it.
        answer.explain(by_code[_DRIVER])
        answer.facts = replace(answer.facts, message=f"{said} {warned[0]}")
    return answer


def _place(answer: Answer, digests: Sequence[Digest]) -> dict[str, str]:
    """The machine of the rank that failed and its card: by torchrun's table, or the lane."""
    rank = answer.ranks[0] if len(answer.ranks) == 1 and answer.sure else None
    rows = [row for d in digests for row in _P.failed.findall(d.text)]
    own = next((row for row in rows if rank is not None and int(row[1]) == rank), None)
    place: dict[str, str] = {}
    card, each = "", answer.facts.number("nproc_per_node")
    if own is not None:
        place["node"], _, card = own
        if len({host for host, _, _ in rows}) > 1:
            place["onenode"] = own[0]
    elif answer.pick and (lane := _P.address.fullmatch(answer.pick.line.lane.strip())):
        place = {"node": lane[1], "onenode": lane[1]}
    elif rank is not None and each:
        card = str(rank % each)
    elif rank is not None and rank < CARDS and (answer.facts.world or 0) <= CARDS:
        card = str(rank) if answer.facts.fields.get("nnodes", "1") == "1" else ""
    if card and answer.known is not None and answer.known.code == _HARDWARE:
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
    told = digest.progress
    match = _P.part.search(told.loading.text) if told.loading is not None else None
    if match is not None and (int(match[1]) < 100 or int(match[2] or 0) < int(match[3] or 0)):
        return True
    end = digest.watched[0] if digest.watched else told.final
    said = told.preparing
    return said is not None and end is not None and 0 <= end.number - said.number <= CLOSE


def phase_in_log(digests: Sequence[Digest]) -> str:
    """Evaluation or saving, where the log says that one had begun and no step came after it."""
    for told in (digest.progress for digest in digests):
        bar, start = told.loading, max(told.evaluating, told.saving)
        if told.steps and bar is not None and bar.at > told.steps[-1][0]:
            if not _P.of_a_step.search(bar.text[:120]):
                return "evaluation"  # a bar of something else than the training
        elif not told.steps and bar is not None and "Loading checkpoint shards" in bar.text:
            return "load"
        if start >= 0 and not told.resumed(start):
            return "evaluation" if told.evaluating > told.saving else "save"
    return ""
