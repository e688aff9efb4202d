"""What a run was at when it was ended or its ranks waited: no first step yet, nothing moving."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from vlmguard.explain import stacks
from vlmguard.explain.answer import Answer
from vlmguard.explain.candidates import Candidate
from vlmguard.explain.digest import Digest
from vlmguard.explain.event import Event
from vlmguard.explain.failure import Known
from vlmguard.explain.lines import Time
from vlmguard.explain.silent import hung

# Where every rank waits for one that does the work alone: torch's, transformers', accelerate's.
_ALONE = (
    "main_process_first",
    "local_main_process_first",
    "global_main_process_first",
    "torch_distributed_zero_first",
    "zero_first",
    "safe_ddp_context",
)
_PART = re.compile(r":\s{0,4}(\d{1,3})%\|(?:[^|]{0,200}\| (\d{1,12})/(\d{1,12}) )?")
CLOSE = 6  # lines
STEPS = 4  # whose times are known
LONGER = 10  # times the longest pause between two of these
LONG = 900  # seconds
# Nothing that a healthy run stays in for long; a download or a collective is.
_STANDING = ("VG517", "VG567")


def preparing(digests: Sequence[Digest]) -> bool:
    """Whether no step was taken yet, and a rank was still loading, tokenizing or downloading."""
    return alone(digests) or working(digests)


def alone(digests: Sequence[Digest]) -> bool:
    """Whether the others waited for one that does the work alone, before any step."""
    names = {name for d in digests for e in d.events for _, _, name in e.frames}
    return not names.isdisjoint(_ALONE) and not any(d.progress.steps for d in digests)


def working(digests: Sequence[Digest]) -> bool:
    """Whether its own log shows it at that to the last."""
    return not any(d.progress.steps for d in digests) and any(_part(d) for d in digests)


def _part(digest: Digest) -> bool:
    """A bar that is not full, or an announcement close before the first wait."""
    told = digest.progress
    match = _PART.search(told.loading.text) if told.loading is not None else None
    if match is not None and (int(match[1]) < 100 or int(match[2] or 0) < int(match[3] or 0)):
        return True
    end = digest.watched[0] if digest.watched else told.final
    said = told.preparing
    return said is not None and end is not None and 0 <= end.number - said.number <= CLOSE


def by_hand(answer: Answer, digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """The hang that somebody ended with Ctrl-C: stacks tell it, or where all processes stood."""
    if (found := hung(digests, by_code)) is not None:
        return found
    events = [e for d in digests for e in d.events if e.name == "KeyboardInterrupt"]
    if not events:
        return None
    stood = [stacks.Stack(e.line, e.rank, _inwards(e)) for e in events]
    code, how = _stood(stood), "where it stood when somebody ended it"
    stepped = any(d.progress.steps or d.progress.done for d in digests)
    quiet = _quiet(answer, digests) if code == "VG505" else 0
    if quiet:
        how = f"no step in the {quiet} minutes before somebody ended it"
    elif stepped or code not in _STANDING:
        return None
    pick = Candidate(by_code[code], stood[0].line, events[0], stood[0].rank)
    return Answer("explained", by_code[code], pick, (), how, False, evidence=[stood[0].line])


def _inwards(event: Event) -> list[str]:
    return [f"{path} in {name}" for path, _, name in reversed(event.frames)]


def _stood(stood: Sequence[stacks.Stack]) -> str:
    """The wait in which all of them stood, if it is one."""
    codes = {stack.code for stack in stood}
    return codes.pop() if len(codes) == 1 else ""


def _quiet(answer: Answer, digests: Sequence[Digest]) -> int:
    """Minutes from the last step to the end, where that is no pause between two of its steps."""
    ended = answer.pick.line.time if answer.pick is not None else None
    clocks = max((d.progress.clocks for d in digests), key=len, default=[])
    times = [_seconds(line.time) for line in clocks if line.time is not None]
    if ended is None or len(times) < STEPS or any(d.progress.done for d in digests):
        return 0
    usual = max(later - earlier for earlier, later in pairwise(times))
    passed = _seconds(ended) - times[-1]
    return passed // 60 if passed >= max(LONGER * usual, LONG) else 0


def _seconds(time: Time) -> int:
    month, day, hour, minute, second = time[:5]
    return (((month * 31 + day) * 24 + hour) * 60 + minute) * 60 + second
