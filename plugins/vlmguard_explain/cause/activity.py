"""What a run was doing when it failed or its ranks waited: preparing, evaluating, saving."""

from __future__ import annotations

from collections.abc import Sequence

from vlmguard_explain.lazy import patterns, words
from vlmguard_explain.run.digest import Digest

_P = patterns("cause.activity")
_T = words("cause.activity")

CLOSE = 6  # lines


def preparing(digests: Sequence[Digest]) -> bool:
    """Whether no step was taken yet, and a rank was still loading, tokenizing or downloading."""
    if any(d.progress.steps for d in digests):
        return False
    return alone(digests) or any(_works(d) for d in digests)


def alone(digests: Sequence[Digest]) -> bool:
    """Whether the others waited for one that does the work alone, before any step."""
    names = {name for d in digests for e in d.events for _, _, name in e.frames}
    return not names.isdisjoint(_T.alone) and not any(d.progress.steps for d in digests)


def _works(digest: Digest) -> bool:
    """A bar that is not full, or an announcement close before the first wait."""
    told = digest.progress
    match = _P.part.search(told.loading.text) if told.loading is not None else None
    if match is not None and (int(match[1]) < 100 or int(match[2] or 0) < int(match[3] or 0)):
        return True
    end = digest.watched[0] if digest.watched else told.final
    said = told.preparing
    return said is not None and end is not None and 0 <= end.number - said.number <= CLOSE


def phase(digests: Sequence[Digest]) -> str:
    """Evaluation or saving, where the log says that one had begun and no step came after it."""
    for told in (digest.progress for digest in digests):
        bar, start = told.loading, max(told.evaluating, told.saving)
        if told.steps and bar is not None and bar.at > told.steps[-1][0]:
            if not _P.of_a_step.search(bar.text[:120]):
                return "evaluation"  # a bar of something else than the training
        elif not told.steps and bar is not None and "Loading checkpoint shards" in bar.text:
            return "load"
        if start >= 0 and not told.resumed(start):
            return "evaluation" if told.evaluating > told.saving else "save"
    return ""
