"""Stacks of processes that hang, as py-spy and faulthandler print them: who stands where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.lines.lines import Line

_P, _T = patterns("run.stacks"), words("run.stacks")
MOST = 256  # processes
DEEP = 60  # frames


@dataclass
class Stack:
    """One process's main thread: "path in function", the innermost first."""

    line: Line
    rank: int | None = None
    frames: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The failure that waiting at this place is; empty where the place tells none."""
        found = (code for frame in self.frames for place, code in _T.places if place in frame)
        return next(found, "")


def of(lines: Iterable[Line]) -> list[Stack]:
    """The main threads of all processes whose stacks stand in these lines."""
    found: list[Stack] = []
    rank: int | None = None
    stack: Stack | None = None
    late = False
    for line in lines:
        text = line.text
        if not text.strip() or len(found) >= MOST:
            continue
        if match := _P.process.match(text):
            own = _P.rank.search(match[2])
            rank, stack = (int(own[1]) if own else line.rank), None
        elif match := _P.thread.match(text):
            stack = Stack(line, line.rank if rank is None else rank)
            if match[1] == "MainThread":
                found.append(stack)
        elif _P.later.match(text):
            late = True
        elif late and _P.dumped.match(text):
            stack = Stack(line, line.rank)  # the last of them is the main thread
            found = [s for s in found if s.rank != line.rank] + [stack]
        elif stack is not None and (match := _P.frame.match(text)) and len(stack.frames) < DEEP:
            stack.frames.append(f"{match[2] or match[3]} in {match[1] or match[4]}")
        elif stack is not None and stack.frames:
            stack = None
    return [s for s in found if len(s.frames) > 1]


def odd(stacks: Sequence[Stack]) -> tuple[int, ...]:
    """Ranks that stand elsewhere than most, where most stand in one place."""
    places = Counter(stack.frames[0] for stack in stacks)
    common, count = places.most_common(1)[0] if places else ("", 0)
    if count < 2 or count * 2 <= len(stacks):
        return ()
    return tuple(sorted(s.rank for s in stacks if s.frames[0] != common and s.rank is not None))


def waiting(stacks: Sequence[Stack]) -> tuple[str, list[Stack]]:
    """The failure that the most processes' places are, and those that show it."""
    codes = Counter(stack.code for stack in stacks if stack.code)
    code = codes.most_common(1)[0][0] if codes else ""
    return code, [stack for stack in stacks if code and stack.code == code]
