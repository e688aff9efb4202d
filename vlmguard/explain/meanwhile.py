"""What a run was at when it was ended or its ranks waited: no first step yet, nothing moving."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlmguard.explain import stacks
from vlmguard.explain.answer import Answer
from vlmguard.explain.candidates import Candidate
from vlmguard.explain.digest import Digest
from vlmguard.explain.failure import Known
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
_PART = re.compile(r":\s{0,4}(\d{1,3})%\|")
# Nothing that a healthy run stays in for long; a download or a collective is.
_STANDING = ("VG517", "VG567")


def preparing(digests: Sequence[Digest]) -> bool:
    """Whether no step was taken yet, and a rank was still loading, tokenizing or downloading."""
    if any(d.progress.steps for d in digests):
        return False
    names = {name for d in digests for e in d.events for _, _, name in e.frames}
    return not names.isdisjoint(_ALONE) or any(_part(d) for d in digests)


def _part(digest: Digest) -> bool:
    loading = digest.progress.loading
    match = _PART.search(loading.text) if loading is not None else None
    return match is not None and int(match[1]) < 100


def by_hand(answer: Answer, digests: Sequence[Digest], by_code: dict[str, Known]) -> Answer | None:
    """The hang that somebody ended with Ctrl-C: stacks tell it, or where all processes stood."""
    if (found := hung(digests, by_code)) is not None:
        return found
    events = [e for d in digests for e in d.events if e.name == "KeyboardInterrupt"]
    if not events or any(d.progress.steps or d.progress.done for d in digests):
        return None
    where = [[f"{path} in {name}" for path, _, name in reversed(e.frames)] for e in events]
    codes = {
        stacks.Stack(e.line, e.rank, there).code for e, there in zip(events, where, strict=True)
    }
    code = codes.pop() if len(codes) == 1 else ""
    if code not in _STANDING or code not in by_code:
        return None
    known, line = by_code[code], events[0].line
    pick = Candidate(known, line, events[0], events[0].rank)
    how = "where it stood when somebody ended it"
    return Answer("explained", known, pick, (), how, False, evidence=[line])
