"""The station ranks: replicas of the weights are equal, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from vlmguard.ledger.account import Account, Entry, Page, Verdict
from vlmguard.ledger.judged_window import unheard
from vlmguard.ledger.stations import named

NAME = "ranks"
_PAST = (
    "call the wrapped model; or look for what else goes past the wrapper: tensors frozen or "
    "unfrozen after the wrapping, no_sync()"
)
_ALONE = "load weights before wrapping the model"


def judge(pages: Sequence[Page | None], account: Account, memory: dict[str, Any]) -> Verdict:
    """Compare the checksums of all ranks that were heard."""
    sums = _sums(pages)
    if len(sums) < 2:
        missing = unheard(pages) if sums else ""
        return Verdict(NAME, "cannot tell" if missing else "idle", reason=missing)
    if all(_apart_on_purpose(page) for page in pages if page is not None):
        return Verdict(NAME, "cannot tell", reason="all ran under no_sync(), as in local SGD")
    places = {tuple(found) for found in sums.values()}
    if len(places) > 1:
        return Verdict(NAME, "cannot tell", reason="ranks read different tensors")
    index = next(iter(places))
    apart = {n: ranks for n in index if (ranks := _apart(n, sums))}
    step = next(int(page["step"]) for page in pages if page is not None)
    shown = {"compared": len(index), "differ": len(apart), "heard": len(sums)}
    if not apart:
        missing = unheard(pages)
        return Verdict(NAME, "cannot tell" if missing else "balances", reason=missing, shown=shown)
    since = memory.setdefault("since", step)
    entry = _entry(apart, index, account, len(sums), since)
    return Verdict(NAME, "differs", (entry,), shown=shown)


def _apart_on_purpose(page: Page) -> bool:
    """Whether gradients are not averaged and weights are, now and then."""
    forwards = (page.get("reduce") or {}).get("forwards")
    return bool(forwards) and set(forwards or ()) == {"no_sync"}


def _sums(pages: Sequence[Page | None]) -> dict[int, Mapping[int, int]]:
    """Rank → tensor → checksum."""
    found: dict[int, Mapping[int, int]] = {}
    for page in pages:
        read = page.get(NAME) if page is not None else None
        if page is not None and read and "sums" in read:
            found[int(page["rank"])] = dict(zip(read["index"], read["sums"], strict=True))
    return found


def _apart(n: int, sums: Mapping[int, Mapping[int, int]]) -> tuple[int, ...]:
    """Ranks that hold another tensor than most; () where all hold the same."""
    values = {rank: found[n] for rank, found in sums.items()}
    (most, number), *others = Counter(values.values()).most_common()
    if not others:
        return ()
    if number == others[0][1]:
        return tuple(values)
    return tuple(rank for rank, value in values.items() if value != most)


def _entry(
    apart: Mapping[int, tuple[int, ...]], index: Sequence[int], account: Account,
    heard: int, since: int,
) -> Entry:  # fmt: skip
    ranks = sorted({rank for each in apart.values() for rank in each})
    told = ", ".join(map(str, ranks[:4])) + (", …" if len(ranks) > 4 else "")
    if len(ranks) == heard:
        who = f"ranks {told} hold different weights"
    elif len(ranks) == 1:
        who = f"rank {told} holds other weights than the other ranks"
    else:
        who = f"ranks {told} hold other weights than the other ranks"
    what = named.told(account, apart, index)
    trained = [n for n in apart if account.tensors[n].trainable]
    why = f"{who}, though each is to hold a copy: {what} since step {since}"
    advice = _PAST if len(trained) == len(apart) else _ALONE
    return Entry("VG660", "warning", why, what, since, advice=advice)
