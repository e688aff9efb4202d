"""Lines of a log as they are shown: cleaned, cut, a traceback's frames under its first line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vlmguard.explain import around, clean
from vlmguard.explain.answer import Answer
from vlmguard.explain.digest import Digest
from vlmguard.explain.lines import Line

LONGEST = 480  # characters of an evidence line
SAID, COMMAND = 240, 900  # of a line round it; of the run's command
_SECOND = "recomputed metadata: "


def lines(answer: Answer, digests: Sequence[Digest]) -> Iterator[str]:
    """The lines that show it and those round them, a traceback's frames among them."""
    events = {event.line.place: event for event in around.traced(answer, digests)}
    own = {line.place for line in answer.evidence}
    commands = {line.place for d in digests for line in d.gist.commands}
    for line in around.of(answer, digests):
        longest = COMMAND if line.place in commands else LONGEST if line.place in own else SAID
        yield f"  {of(line, digests, longest)}"
        if event := events.get(line.place):
            yield from (f"      {clean.shown(frame)}" for frame in around.through(event))


def of(line: Line, digests: Sequence[Digest], longest: int = LONGEST) -> str:
    """``train.log:1234 | the line``."""
    name = digests[line.source].source.name if line.source < len(digests) else "?"
    said = clean.shown(line.raw).strip()
    cut = said if len(said) <= longest else _cut(said, longest)
    return f"{clean.shown(name)}:{line.number} | {cut}"


def _cut(said: str, longest: int) -> str:
    """The beginning of a long line, and of those that compare two things the second as well."""
    at = said.find(_SECOND)
    if at < longest - 2 * len(_SECOND) or at > 2 * longest:
        at = 0
    tail = f" … {said[at : at + longest // 3]}" if at else ""
    return said[: longest - 2 - len(tail)] + tail + " …"
