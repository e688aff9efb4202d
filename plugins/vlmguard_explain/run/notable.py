"""The lines that tell what a run did: its commands, and each other kind of line once.

No bars, no tracebacks, no dumps of a configuration, nothing that every run prints.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from vlmguard_explain.lazy import patterns
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.tracebacks import frames

_P = patterns("show.notable")

FIRST, LAST = 150, 350  # lines that are kept of one log
LONGEST = 2000  # characters of one: more than is ever shown, so that no secret is cut in two
_COMMANDS = 4


@dataclass
class Notable:
    """``commands`` as they were typed; ``lines``: the others, in order."""

    commands: list[Line] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


def of(kept: Sequence[Line], shape: Callable[[str], int]) -> Notable:
    """The notable lines of ``kept``; of several lines of one ``shape`` the first."""
    found, first, last = Notable(), list[Line](), deque[Line](maxlen=LAST)
    known: set[int] = set()
    inside: set[str] = set()
    for number, line in enumerate(kept):
        text = line.text
        if not text.strip() or _framed(text, line.lane, inside):
            continue
        label = text.partition("%|")[0].rstrip(" 0123456789") if "%|" in text else text
        one = shape(text) if label is text else hash(label)  # a bar: once, by its label
        if one in known or not _P.letter.search(label):
            continue
        known.add(one)
        if len(found.commands) < _COMMANDS and _P.command.match(line.raw[:1500]):
            found.commands.append(_cut(line, _continued(kept, number)))
        elif not _P.noise.search(text[:600]):
            (first if len(first) < FIRST else last).append(_cut(line, line.raw))
    found.lines = [*first, *last]
    return found


def _framed(text: str, lane: str, inside: set[str]) -> bool:
    """Whether it is a traceback's, a box's or a configuration's; ``inside`` are lanes in one."""
    if text.startswith(("│", "╭", "╰", "}", "]", "Traceback (")) or frames.is_frame(text):
        inside.add(lane)
        return True
    if text[:1] in " \t" and lane in inside:
        return True
    inside.discard(lane)
    if text.rstrip().endswith(("{", "[", "(")):
        inside.add(lane)
    return False


def _continued(kept: Sequence[Line], number: int) -> str:
    """A command with the lines that its backslashes join to it."""
    said = kept[number].raw.rstrip()
    while said.endswith("\\") and number + 1 < len(kept) and len(said) < LONGEST:
        number += 1
        said = f"{said[:-1].rstrip()} {kept[number].text.strip()}"
    return said


def _cut(line: Line, raw: str) -> Line:
    return replace(line, text="", raw=raw if len(raw) <= LONGEST else raw[: LONGEST - 2] + " …")
