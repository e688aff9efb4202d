"""What a log quotes: rows, samples and completions that a run prints, whose text may be an error.

A model that is trained on issues or code prints tracebacks that are nobody's. Told by their frame:
a chat template's marks, a framework's heading, a table of completions, a fence of Markdown in a
run that already steps. Only what is closed again is taken out, and never what torch has marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlmguard_explain.lazy import patterns
from vlmguard_explain.lines import parts
from vlmguard_explain.lines.lines import Line

_P = patterns("lines.quoted")

LONGEST = 4000  # lines of one quotation
GAP = 64  # more lines between two were not kept


@dataclass
class _Open:
    """A quotation that has begun: what ends it, or stands behind it; its lines so far."""

    end: re.Pattern[str]
    behind: re.Pattern[str]
    lines: list[Line] = field(default_factory=list)


def without(kept: Sequence[Line], quoted: Iterable[Line]) -> list[Line]:
    """``kept`` without what is quoted and what torch has not marked."""
    out = {id(line) for line in quoted if not line.marked}
    return [line for line in kept if id(line) not in out]


def framed(kept: Sequence[Line]) -> Iterator[Line]:
    """What is quoted in a frame of its own."""
    lanes: dict[str, _Open] = {}
    number = 0
    for line in kept:
        if line.number > number + GAP:
            lanes.clear()
        number = line.number
        if parts.is_row(line.raw):
            yield line
            continue
        now = lanes.get(line.lane)
        if now is not None and now.behind.match(line.text):
            yield from now.lines
            del lanes[line.lane]
            now = None
        if now is not None:
            now.lines.append(line)
            if now.end.search(line.text):
                yield from now.lines
                del lanes[line.lane]
                continue
        if (now is None or now.end is _P.turned) and (begun := _begins(line.text)):
            begun.lines.append(line)
            lanes[line.lane] = begun
        elif now is not None and len(now.lines) > LONGEST:
            del lanes[line.lane]


def _begins(text: str) -> _Open | None:
    """The quotation that begins with ``text``."""
    forms: Any = _P.frames
    for begin, end, behind in forms:
        if begin.match(text):
            return _Open(end, behind)
    turns = list(_P.turn.finditer(text)) if "<" in text or "[INST]" in text else []
    open_ = turns and not _P.turned.search(text, turns[-1].end())
    return _Open(_P.turned, _P.never) if open_ else None


def fenced(kept: Sequence[Line], since: int) -> Iterator[Line]:
    """What stands between fences behind the place ``since``, the first step: before it a fence is
    an issue's, which quotes the log itself."""
    lanes: dict[str, list[Line]] = {}
    for line in kept:
        open_ = lanes.get(line.lane)
        if open_ is not None:
            open_.append(line)
        if line.text.lstrip().startswith("```") and line.at > since:
            if open_ is None:
                lanes[line.lane] = [line]
            else:
                yield from lanes.pop(line.lane)
