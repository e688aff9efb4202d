"""What shows an answer: the run's command, what was said before the failure, the frames."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from vlmguard.explain import codeline, frames
from vlmguard.explain.answer import Answer, asserted
from vlmguard.explain.digest import Digest
from vlmguard.explain.event import Event
from vlmguard.explain.lines import Line

BEFORE = 5  # lines before the failure
TELLING = 6  # lines elsewhere that speak of trouble
AFTER = 3  # behind a line that is no exception
OWN, INNER = 4, 3  # frames: the user's, and the last
CODE = 120  # characters
CHAIN = 8  # exceptions, each from the one before
_TELLING = re.compile(
    r"(?i)\b(?:error|fail\w{0,4}|cannot|can't|could ?n[o']t|unable|not found|no such|missing"
    r"|mismatch\w{0,2}|invalid|skip\w{0,4}|ignor\w{0,4}|dropp\w{0,3}|truncat\w{0,4}|empty|nan|inf"
    r"|unexpected|newly initialized|not (?:used|supported?|recogni[sz]e\w?|installed|available)"
    r"|not (?:compatible|enough)|fall\w{0,3} ?back|overflow|killed|denied|retr(?:y|ies|ying)"
    r"|timed? ?out|unused|does ?n[o']t|instead|conflict\w{0,4}|incompatib\w{0,4}|disabl\w{0,3}"
    r"|warning|refus\w{0,3}|corrupt\w{0,3}|exceed\w{0,3}|longer than"
    r"|0 (?:rows|samples|examples|images)|out of memory)\b"
    r"|WARN|错误|失败|警告"
)


def of(answer: Answer, digests: Sequence[Digest]) -> list[Line]:
    """The lines of the log that are shown with an answer, its evidence among them, in order."""
    if not digests:  # reports of ours alone
        return []
    pick = answer.pick.line if answer.pick else None
    lines: list[Line] = [one for d in digests for one in d.gist.commands][:2]
    told = digests[pick.source] if pick and pick.source < len(digests) else _longest(digests)
    lines += _near(told, pick, answer.pick.event if answer.pick else None)
    lines += [line for e in traced(answer, digests) for line in (e.line, e.last) if line]
    kept = {line.place: line for line in lines}
    own = {line.place: line for line in answer.evidence}
    if answer.verdict == "unfinished":  # those are shown by rank
        return [kept[at] for at in sorted(kept.keys() - own.keys())]
    kept |= own  # which are whole
    return [kept[at] for at in sorted(kept)]


def _longest(digests: Sequence[Digest]) -> Digest:
    """The log that tells most: a rank's may hold its warnings alone."""
    return max(digests, key=lambda digest: len(digest.gist.lines))


def traced(answer: Answer, digests: Sequence[Digest]) -> list[Event]:
    """The exceptions whose frames are shown: what the told one came from, and itself."""
    if answer.pick is None:
        return []
    event = answer.pick.event or asserted(answer.pick, digests)
    first = event
    for _ in range(CHAIN):
        first = first.cause if first is not None and first.cause is not None else first
    both = [first, event] if first is not event else [event]
    return [each for each in both if each is not None and each.frames]


def _near(digest: Digest, pick: Line | None, event: Event | None) -> Iterator[Line]:
    told = digest.gist.lines
    rank = pick.rank if pick else None
    if rank is not None:
        told = [line for line in told if line.rank in (None, rank)]
    before = [line for line in told if pick is None or line.at < pick.at]
    trouble = [line for line in before[:-BEFORE] if _TELLING.search(line.raw)]
    yield from trouble[:2] + trouble[2:][-(TELLING - 2) :]
    yield from before[-BEFORE:]
    if pick is not None and event is None:
        after = [line for line in told if line.at > pick.at]
        yield from after[:AFTER]
        yield from [line for line in after[AFTER:] if _TELLING.search(line.raw)][:AFTER]


def frames_of(answer: Answer, digests: Sequence[Digest]) -> list[str]:
    """The frames that are shown, none where there was no traceback."""
    return [frame for event in traced(answer, digests) for frame in through(event)]


def through(event: Event) -> list[str]:
    """The frames of a traceback: the user's own and the innermost; the others are counted."""
    every = [(frame, codeline.under(event.trace, n, CODE)) for n, text in enumerate(event.trace)
             if (frame := frames.of(text)) is not None
             and not frame[0].startswith("<frozen ")]  # fmt: skip
    own = [n for n, (frame, _) in enumerate(every) if not frames.foreign(frame[0])]
    wanted = {*own[:1], *own[-OWN:], *range(max(len(every) - INNER, 0), len(every))}
    said: list[str] = []
    for chosen, some in groupby(enumerate(every), key=lambda one: one[0] in wanted):
        part = list(some)
        if not chosen:
            packages = dict.fromkeys(_package(frame[0]) for _, (frame, _) in part)
            said.append(f"… {len(part)} in {', '.join(list(packages)[:4])}")
            continue
        said += [f"{_path(f[0])}:{f[1]} in {f[2]}{f': {code}' if code else ''}"
                 for _, (f, code) in part]  # fmt: skip
    return said


def _path(path: str) -> str:
    return path.replace("\\", "/").rpartition("-packages/")[2]


def _package(path: str) -> str:
    inside = _path(path)
    return inside.partition("/")[0] if inside != path else inside.rpartition("/")[2]
