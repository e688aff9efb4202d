"""The lines of a log that are shown: what shows the failure, the lines round it, the frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from vlmguard_explain.cause.candidates import Answer, Candidate, device_assert
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.run.digest import AFTER, BEFORE, Digest
from vlmguard_explain.source import clean
from vlmguard_explain.tracebacks import frames
from vlmguard_explain.tracebacks.event import Event

LONGEST = 480  # characters of an evidence line
OWN, INNER = 4, 3  # frames: of the user's code, and the last ones
CODE = 120  # characters
CHAIN = 8  # exceptions that led to each other


def context(answer: Answer, digests: Sequence[Digest]) -> list[Line]:
    """The lines that are shown with an answer, its evidence among them, in order."""
    lines = _near(answer.pick, digests) if answer.pick else _last(digests)
    lines += [line for e in _traced(answer, digests) for line in (e.line, e.last) if line]
    kept = {line.place: line for line in (*lines, *answer.evidence)}  # evidence is not cut
    if answer.verdict == "unfinished":  # shown by rank instead
        kept = {at: line for at, line in kept.items() if line not in answer.evidence}
    return [kept[at] for at in sorted(kept)]


def _near(pick: Candidate, digests: Sequence[Digest]) -> list[Line]:
    """The lines of its rank before and behind it."""
    around = [line for d in digests for line in d.around if line.source == pick.line.source]
    lines = [line for line in around if pick.rank is None or line.rank in (None, pick.rank)]
    before, end = [line for line in lines if line.at < pick.line.at], pick.at
    return before[-BEFORE:] + [line for line in lines if line.at > end][:AFTER]


def _last(digests: Sequence[Digest]) -> list[Line]:
    """The last lines of all ranks."""
    lines = [line for d in digests for recent in d.recent.values() for line in recent]
    return sorted(lines, key=lambda line: line.place)[-BEFORE:]


def _traced(answer: Answer, digests: Sequence[Digest]) -> list[Event]:
    """The exceptions whose frames are shown: the reported one, and the first that led to it."""
    if answer.pick is None:
        return []
    event = answer.pick.event or device_assert(answer.pick, digests)
    first = event
    for _ in range(CHAIN):
        first = first.cause if first is not None and first.cause is not None else first
    both = [first, event] if first is not event else [event]
    return [each for each in both if each is not None and each.frames]


def frames_of(answer: Answer, digests: Sequence[Digest]) -> list[str]:
    """The frames that are shown, none where there was no traceback."""
    return [frame for event in _traced(answer, digests) for frame in _frames(event)]


def _frames(event: Event, own: int = OWN, inner: int = INNER) -> list[str]:
    """The frames of a traceback: the user's own and the innermost; the others are counted."""
    every = [(frame, frames.code_under(event.trace, n, CODE)) for n, text in enumerate(event.trace)
             if (frame := frames.of(text)) is not None
             and not frame[0].startswith("<frozen ")]  # fmt: skip
    users = [n for n, (frame, _) in enumerate(every) if not frames.foreign(frame[0])]
    wanted = {*users[: own - 1][:1], *users[-own:], *range(max(len(every) - inner, 0), len(every))}
    said: list[str] = []
    for chosen, some in groupby(enumerate(every), key=lambda one: one[0] in wanted):
        part = list(some)
        if chosen:
            said += [f"{_path(f[0])}:{f[1]} in {f[2]}{f': {code}' if code else ''}"
                     for _, (f, code) in part]  # fmt: skip
        else:
            paths = [(f[0], _path(f[0]).split("/")) for _, (f, _) in part]
            packages = dict.fromkeys(p[0 if "-packages" in path else -1] for path, p in paths)
            said.append(f"… {len(part)} in {', '.join(list(packages)[:4])}")
    return said


def _path(path: str) -> str:
    return path.replace("\\", "/").rpartition("-packages/")[2]


def every(answer: Answer, digests: Sequence[Digest]) -> Iterator[str]:
    """The context as text, a traceback's frames under its first line."""
    events = {event.line.place: event for event in _traced(answer, digests)}
    for line in context(answer, digests):
        yield of(line, digests)
        if event := events.get(line.place):
            yield from (f"    {clean.shown(frame)}" for frame in _frames(event))


def short(answer: Answer, digests: Sequence[Digest]) -> Iterator[str]:
    """The user's own frame, the innermost one, and the failure's own line."""
    for event in _traced(answer, digests)[-1:]:
        yield from (clean.shown(one) for one in _frames(event, 1, 1) if not one.startswith("… "))
    raised = answer.pick is not None and answer.pick.event is not None
    yield from (of(line, digests) for line in answer.evidence[-1 if raised else -2 :])


def of(line: Line, digests: Sequence[Digest], longest: int = LONGEST) -> str:
    """``train.log:1234 | the line``."""
    name = digests[line.source].source.name
    said = clean.shown(line.raw).strip()
    cut = said if len(said) <= longest else f"{said[: longest - 2]} …"
    return f"{clean.shown(name)}:{line.number} | {cut}"
