"""Stacks of processes that hang, as py-spy and faulthandler print them: who stands where."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vlmguard.explain.lines import Line

_PROCESS = re.compile(r"^\s{0,4}Process (\d{1,9}): (.{1,4000})")
_THREAD = re.compile(
    r"^\s{0,4}Thread (?:0x)?[0-9A-Fa-f]{1,16} \((?:idle|active|active\+gil|idle\+gil)\)"
    r'(?:: "([^"\n]{1,80})")?'
)
_FRAME = re.compile(r"^\s{2,9}([\w<>.]{1,120}) \(([^()\n]{0,300}?)(?::(\d{1,7}))?\)\s*$")
_LATER = re.compile(r"^Timeout \(\d{1,3}:\d\d:\d\d")  # faulthandler.dump_traceback_later
_DUMPED = re.compile(
    r"^(?:Current thread|Thread) 0x[0-9a-f]{1,16} .{0,60}\(most recent call first\)"
)
_FILE = re.compile(r'^\s{2,4}File "([^"\n]{1,300})", line (\d{1,7}) in ([\w<>.]{1,120})')
_RANK = re.compile(r"--(?:local[_-]rank|rank|node_local_rank)[= ](\d{1,5})\b")
MOST = 256  # processes
DEEP = 60  # frames

# Where a process waits, and the failure of the catalogue that waiting there is.
PLACES: tuple[tuple[str, str], ...] = (
    ("torch/utils/file_baton.py", "VG567"),
    ("/filelock/", "VG567"),
    ("filelock/_", "VG567"),
    ("torch/distributed/rendezvous.py", "VG517"),
    ("torch/distributed/elastic/rendezvous", "VG517"),
    ("in _store_based_barrier", "VG517"),
    ("in init_process_group", "VG517"),
    ("in _new_process_group_helper", "VG517"),
    ("huggingface_hub/", "VG540"),
    ("torch/distributed/", "VG505"),
    ("deepspeed/comm/", "VG505"),
    ("deepspeed/runtime/zero/", "VG505"),
    ("megatron/core/pipeline_parallel/", "VG505"),
    ("torch/autograd/", "VG505"),
)


@dataclass
class Stack:
    """One process's main thread: "function (path)", the innermost first."""

    line: Line
    rank: int | None = None
    frames: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The failure that waiting at this place is; empty where the place tells none."""
        for frame in self.frames:
            found = next((code for place, code in PLACES if place in frame), "")
            if found:
                return found
        return ""

    @property
    def place(self) -> str:
        """The innermost frame."""
        return self.frames[0] if self.frames else ""


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
        if match := _PROCESS.match(text):
            told = _RANK.search(match[2])
            rank, stack = (int(told[1]) if told else line.rank), None
        elif match := _THREAD.match(text):
            main = match[1] == "MainThread"
            stack = Stack(line, rank if rank is not None else line.rank) if main else None
            found += [stack] if stack is not None else []
        elif _LATER.match(text):
            late = True
        elif late and _DUMPED.match(text):
            stack = Stack(line, line.rank)  # the last of them is the main thread
            found = [s for s in found if s.rank != line.rank] + [stack]
        elif stack is not None and len(stack.frames) < DEEP:
            stack = _frame(stack, text)
    return [s for s in found if len(s.frames) > 1]


def _frame(stack: Stack, text: str) -> Stack | None:
    if match := _FRAME.match(text):
        stack.frames.append(f"{match[2]} in {match[1]}")
    elif match := _FILE.match(text):
        stack.frames.append(f"{match[1]} in {match[3]}")
    else:
        return None if stack.frames else stack
    return stack


def odd(stacks: Sequence[Stack]) -> tuple[int, ...]:
    """Ranks that stand elsewhere than most, where most stand in one place."""
    places = Counter(stack.place for stack in stacks)
    common, count = places.most_common(1)[0] if places else ("", 0)
    if count < 2 or count * 2 <= len(stacks):
        return ()
    return tuple(sorted(s.rank for s in stacks if s.place != common and s.rank is not None))


def waiting(stacks: Sequence[Stack]) -> tuple[str, list[Stack]]:
    """The failure that the most processes' places are, and those that show it."""
    codes = Counter(stack.code for stack in stacks if stack.code)
    if not codes:
        return "", []
    code = codes.most_common(1)[0][0]
    return code, [stack for stack in stacks if stack.code == code]
