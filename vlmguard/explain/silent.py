"""Logs without a failure's words: killed, waiting, losses of nan, finished, or it just ends."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard.explain import launcher, stacks, standing
from vlmguard.explain.answer import Answer, evidence
from vlmguard.explain.candidates import Candidate, launchers, survived
from vlmguard.explain.digest import Digest
from vlmguard.explain.ended import by_exit, nodes
from vlmguard.explain.event import Event
from vlmguard.explain.failure import Known
from vlmguard.explain.lines import Line

# c10d's warnings: each may pass, and a log that ends with one did not get further.
_MEETING = (
    "[c10d] The client socket has failed to connect to",
    "[c10d] The client socket has timed out",
    "[c10d] waitForInput: poll for socket",
)


MISFITS = 3
SHARE = 10  # of so many steps one


def silent(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer:
    """No candidate: killed, failed without a word, losses of nan, finished, or it just ends."""
    if (answer := by_exit(digests, by_code)) is not None:
        return answer
    if (lost := no_numbers(digests, by_code)) is not None:
        return lost
    if (stands := hung(digests, by_code)) is not None:
        return stands
    failed = [
        e
        for d in digests
        for e in d.exits
        if not survived(e.line.at - 1, d, digests)
        and not (e.code == -15 and d.progress.over(e.line.at))
    ]
    if not failed and (empty := _unlabelled(digests, by_code)) is not None:
        return empty
    if not failed and (flat := _flat(digests, by_code)) is not None:
        return flat
    if not failed and (cut := _misfits(digests, by_code)) is not None:
        return cut
    if failed:
        ended = launcher.first(failed) or failed[0]
        rank = ended.rank if ended.rank is not None or nodes(digests) else ended.local
        ranks = () if rank is None else (rank,)
        how = "torchrun's first observed failure" if ended.first else ""
        pick = Candidate(None, ended.line, None, ended.rank)
        answer = Answer("unknown", None, pick, ranks, how, evidence=[ended.line])
        answer.code = ended.code
        return answer
    if (wrapped := _wrapped(digests)) is not None:
        pick = Candidate(None, wrapped.line, wrapped, wrapped.rank)
        return Answer("unknown", None, pick, how="", evidence=evidence(pick))
    if (met := _waiting(digests)) is not None:
        known = by_code["VG517"]
        return Answer("explained", known, Candidate(known, met, None, met.rank), evidence=[met])
    if any(d.progress.done for d in digests):
        ends = [d.progress.end for d in digests if d.progress.end is not None]
        return Answer("finished", evidence=ends[-1:])
    elsewhere = standing.of(digests).ranks
    how = "it stands elsewhere than the others" if elsewhere else ""
    return Answer("unfinished", ranks=elsewhere, how=how, evidence=_where_each(digests))


def no_numbers(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """Losses that were no numbers to the last: whoever ended the run then ended a lost one."""
    for digest in digests:
        if digest.progress.broken:
            line = digest.progress.losses[-digest.progress.broken][0]
            known = by_code["VG515"]
            last = digest.progress.losses[-1][0]
            pick = Candidate(known, line, None, line.rank)
            return Answer("explained", known, pick, how="the logged losses", evidence=[line, last])
    return None


def hung(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """Stacks that somebody took of processes that hang: what they wait for, who is elsewhere."""
    found = [s for d in digests for s in d.stacks]
    code, there = stacks.waiting(found)
    if code not in by_code:
        return None
    elsewhere = stacks.odd(found) if code == "VG505" else ()
    how = "it stands elsewhere than the others" if elsewhere else ""
    pick = Candidate(by_code[code], there[0].line, None, there[0].rank)
    shown = [s.line for s in there[:8]]
    sure = bool(elsewhere)
    return Answer("explained", by_code[code], pick, elsewhere, how, sure, evidence=shown)


def _unlabelled(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """Losses of 0.0 from the first step on, in every log that has a loss."""
    told = [d.progress for d in digests if d.progress.zeros or d.progress.sound]
    if not told or not all(progress.unlabelled for progress in told):
        return None
    known, lines = by_code["VG593"], told[0].zeros
    pick = Candidate(known, lines[0], None, lines[0].rank)
    return Answer("explained", known, pick, how="the logged losses", evidence=[lines[0], lines[-1]])


def _flat(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """Gradients of 0.0 in every step, beside a loss that stays where it began."""
    told = [d.progress for d in digests if d.progress.still or d.progress.moved]
    if not told or not all(progress.flat for progress in told):
        return None
    known, lines = by_code["VG507"], [line for line, _ in told[0].still]
    pick = Candidate(known, lines[0], None, lines[0].rank)
    how = "the logged gradients"
    return Answer("explained", known, pick, how=how, evidence=[lines[0], lines[-1]])


def _misfits(digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """Image features that did not fit their places in many a step, with which it trained on."""
    lines = [line for d in digests for line in d.progress.misfits]
    steps = sum(len(d.progress.losses) for d in digests)
    if len(lines) < MISFITS or len(lines) * SHARE < steps:
        return None
    known = by_code["VG506"]
    pick = Candidate(known, lines[0], None, lines[0].rank)
    how = "the model's own warnings"
    return Answer("explained", known, pick, how=how, evidence=[lines[0], lines[-1]])


def _waiting(digests: Sequence[Digest]) -> Line | None:
    """The line with which a log ends that never got past the ranks' first meeting."""
    if any(d.progress.steps or d.progress.done for d in digests):
        return None
    finals = (line for d in digests for line in d.finals.values())
    return next((line for line in finals if any(text in line.raw for text in _MEETING)), None)


def _wrapped(digests: Sequence[Digest]) -> Event | None:
    """A launcher's exception, where the log does not hold what it was raised for."""
    found = (
        e
        for d in digests
        for e in reversed(d.events)
        if launchers(e) and not survived(e.at, d, digests)
    )
    return next((e for e in found if not e.type.endswith("SystemExit")), None)


def _where_each(digests: Sequence[Digest]) -> list[Line]:
    finals = {(d.number, rank): line for d in digests for rank, line in d.finals.items()}
    return [
        finals[key]
        for key in sorted(finals, key=lambda k: (k[0], k[1] if k[1] is not None else -1))
    ][:64]
