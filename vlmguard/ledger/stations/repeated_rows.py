"""The same rows where there should be others: on all ranks, or again after a resume."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlmguard.core.runstate import RunState
from vlmguard.ledger.account import Account, Entry, Page
from vlmguard.ledger.report import figures
from vlmguard.ledger.report.record import KIND
from vlmguard.ledger.stations import targets
from vlmguard.runtime import report

WINDOWS = 2
"""Windows in a row that have to show it."""


def judge(
    pages: Sequence[Page | None], account: Account, memory: dict[str, Any], step: int
) -> list[Entry]:
    """One entry for the ranks, one for a resume."""
    return [*_on_all_ranks(pages, account, memory, step), *_again(pages, memory, step)]


def _on_all_ranks(
    pages: Sequence[Page | None], account: Account, memory: dict[str, Any], step: int
) -> Iterator[Entry]:
    known = [_rows(page) for page in pages if page is not None and "rows" in page]
    distinct = memory.setdefault("distinct", set())
    distinct.update(row for rows in known for row in rows)
    several = max(Counter(map(type, distinct)).values(), default=0) > 1  # texts, or images
    whole = len(known) == account.world > 1 and bool(known[0])
    # Ranks that share a model or a row have the same rows by design.
    whole = whole and not any(page["rows"].get("shared") for page in pages if page is not None)
    # Under a policy gradient ranks have the same prompts by design.
    same = whole and not targets.of_both_signs([page for page in pages if page])
    same = same and all(rows == known[0] for rows in known)
    memory["same"] = memory.get("same", 0) + 1 if same else 0
    if memory["same"] >= WINDOWS and several:
        why = f"all {account.world} ranks have the same rows: {len(known[0])} of them, in order"
        advice = "a sampler that knows the ranks (DistributedSampler, accelerator.prepare)"
        yield Entry("VG612", "warning", why, since=step, advice=advice)


def _rows(page: Page) -> tuple[Any, ...]:
    """Rows, and the images that go with them, as something to compare."""
    read = page["rows"]
    images = tuple(tuple(f"{value:.9e}" for value in image) for image in read["images"])
    return (*map(int, read["digests"]), *images)


def digest(pages: Sequence[Page]) -> str:
    """Of all rows of a window, whatever rank has them."""
    rows = sorted(int(each) for page in pages for each in page["rows"]["digests"])
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def earlier(step: int, state: RunState | None = None) -> dict[str, int]:
    """Of a run that goes on after ``step``: digests of the windows that its report has from before,
    and their steps. {} without a report."""
    found: dict[str, int] = {}
    last = 0.0
    for line in report.lines(state):
        at = figures.number(line.get("step")) if line.get("kind") == KIND else None
        if at is None:
            continue
        if at <= last:
            found.clear()  # those lines were of an earlier run
        last = at
        known = figures.shown(line, "rows").get("digest")
        if known and at <= step:
            found[str(known)] = int(at)
    return found


def _again(pages: Sequence[Page | None], memory: dict[str, Any], step: int) -> Iterator[Entry]:
    earlier: Mapping[str, int] = memory.get("earlier", {})
    read = [page for page in pages if page is not None and "rows" in page]
    before = earlier.get(digest(read))
    again = before is not None and before < step
    memory["again"] = memory.get("again", 0) + 1 if again else 0
    if memory["again"] >= WINDOWS and len(set(earlier)) > 1:
        why = f"the resumed run repeats its rows: step {step} has those of step {before}"
        advice = "remove ignore_data_skip, or save the sampler's state with each checkpoint"
        yield Entry("VG612", "warning", why, since=step - WINDOWS + 1, advice=advice)
