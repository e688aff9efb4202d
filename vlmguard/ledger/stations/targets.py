"""The station "targets": which tokens the loss teaches, and with what weight.

Read in front of the head: for cross-entropy the gradient at a position is the token's weight times
a direction that head, hidden state and target decide. What is left over (the residual) says whether
that token is the target. Weights of a mean over tokens are equal and sum to 1 over a window and all
ranks, divided by the number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vlmguard.ledger.account import Account, Entry, Page, Verdict

FIELDS = ("count", "finite", "used", "tenth", "median", "ninetieth", "mean", "negative",
          "next", "same", "after")  # fmt: skip
"""Numbers of one forward: positions that carry weight, whether all are finite, sampled ones that
can be judged; of their weights as next tokens the tenth part, median, ninetieth, mean and the share
of negative ones; the median residual for the next token, the same, and the one after the next."""
Level = Literal["warning", "note"]
RESIDUAL = {"float32": 1e-2}
RESIDUAL_SHORT = 0.1
"""The largest median residual of plain cross-entropy: in float32, in shorter types."""
APART = 0.5
"""From this residual on a token is not the target."""
EQUAL, EQUAL_SHORT = 1.05, 1.3
"""Weights are equal up to this factor."""
MATERIAL = 1.5
"""From this factor on unequal weights are a warning, if a mean of means explains them."""
BALANCED = (0.8, 1.25)
"""Sums of weights that are 1: a Trainer counts the first token of each row, which none predicts."""
CLOSE = 1.15
"""A sum is a known factor up to this much."""


@dataclass(frozen=True)
class Forward:
    """What one forward's gradient said; fields as in `FIELDS`."""

    rank: int
    round: int
    precise: bool
    count: float
    finite: float
    used: float
    tenth: float
    median: float
    ninetieth: float
    mean: float
    negative: float
    next: float
    same: float
    after: float

    @property
    def plain(self) -> bool:
        """Whether it is cross-entropy of the next token."""
        return self.next <= (RESIDUAL["float32"] if self.precise else RESIDUAL_SHORT)

    @property
    def weight(self) -> float:
        """Of all its tokens."""
        return self.count * self.mean


def judge(pages: Sequence[Page | None], account: Account, memory: dict[str, Any]) -> Verdict:
    """See `vlmguard.ledger.judged_window.Judge`."""
    taught = [each for page in pages if page for each in _forwards(page)]
    shown = _shown(taught)
    reason = _unread(taught)
    if reason:
        return Verdict("targets", "cannot tell", reason=reason, shown=shown)
    step = next(page["step"] for page in pages if page)
    wrong = _wrong(taught, step)
    if wrong is not None:
        return Verdict("targets", "differs", (wrong,), shown=shown)
    reason = _other(taught)
    if reason:
        return Verdict("targets", "cannot tell", reason=reason, shown=shown)
    by_class = any(page["targets"].get("means") for page in pages if page and "targets" in page)
    entries = [*_unequal(taught, step, by_class)]
    heard = all(page and "targets" in page and "thinned" not in page for page in pages)
    if heard and len(pages) >= account.world:
        total = sum(each.weight for each in taught) / max(account.world, 1)
        shown = {**shown, "sum": round(total, 5)}
        declared = max(int(page["targets"].get("accumulation") or 0) for page in pages if page)
        if not all(_whole(page) for page in pages if page):
            declared = 0
        entries += _scale(total, taught, account.world, declared, step, memory)
    warned = any(entry.level == "warning" for entry in entries)
    return Verdict("targets", "differs" if warned else "balances", tuple(entries), shown=shown)


def are_next(pages: Sequence[Page]) -> bool:
    """Whether the gradient says that next tokens are learned, all of them."""
    taught = [each for page in pages for each in _forwards(page)]
    return bool(taught) and all(each.plain and not each.negative for each in taught)


def are_wrong(pages: Sequence[Page]) -> bool:
    """Whether the gradient says that others are."""
    taught = [each for page in pages for each in _forwards(page)]
    return bool(taught) and all(each.next >= APART for each in taught)


def of_both_signs(pages: Sequence[Page]) -> bool:
    """Whether some tokens are made less likely: preferences or a policy gradient."""
    return any(each.plain and each.negative > 0 for page in pages for each in _forwards(page))


def weights(page: Page, forward: int, row: int) -> dict[int, float]:
    """Place in a row → weight of the token behind it, relative to the window's median. The numbers
    of forwards are those of micro-batches where each has one."""
    read = page.get("targets") or {}
    if forward >= len(read.get("weights", ())) or read["rounds"][: forward + 1] != [
        *range(forward + 1)
    ]:
        return {}
    long = read["lengths"][forward]
    middle = _middle([numbers[FIELDS.index("median")] for numbers in read["forwards"]]) or 1.0
    told = zip(read["places"][forward], read["weights"][forward], strict=True)
    return {
        int(place) % long: round(weight / middle, 3)
        for place, weight in told
        if int(place) // long == row and not math.isnan(weight)
    }


def _forwards(page: Page) -> list[Forward]:
    read: Mapping[str, Any] | None = page.get("targets")
    if read is None:
        return []
    scale, precise = read.get("scale") or 1.0, read.get("precision") in RESIDUAL
    found = []
    for number, numbers in zip(read["rounds"], read["forwards"], strict=True):
        told = dict(zip(FIELDS, numbers, strict=True))
        for name in ("tenth", "median", "ninetieth", "mean"):
            told[name] /= scale
        found.append(Forward(page["rank"], number, precise, **told))
    return [each for each in found if each.count > 0]


def _shown(taught: Sequence[Forward]) -> dict[str, Any]:
    read = [each for each in taught if each.used and not math.isnan(each.mean)]
    shown: dict[str, Any] = {"tokens": int(sum(each.count for each in taught))}
    if read:
        shown["weights"] = [min(each.tenth for each in read), max(each.ninetieth for each in read)]
        shown["residual"] = {
            name: _middle([getattr(each, name) for each in read])
            for name in ("next", "same", "after")
        }
    return shown


def _middle(values: Sequence[float]) -> float | None:
    known = sorted(value for value in values if not math.isnan(value))
    return known[len(known) // 2] if known else None


def _unread(taught: Sequence[Forward]) -> str:
    if not taught:
        return "no position in front of the head got a gradient"
    if not all(each.finite for each in taught):
        return "the gradient in front of the head is not finite"
    if not all(each.used for each in taught):
        return "the model is certain of all sampled targets"
    return ""


def _wrong(taught: Sequence[Forward], step: int) -> Entry | None:
    """The target is another token of the row, in every forward."""
    for name, words in (("same", "itself"), ("after", "the one after the next")):
        if all(getattr(each, name) <= RESIDUAL_SHORT and each.next >= APART for each in taught):
            return Entry(
                "VG620", "warning", _teaches(words, taught), since=step, advice=_ADVICE[name]
            )
    return None


def _teaches(words: str, taught: Sequence[Forward]) -> str:
    number = int(sum(each.count for each in taught))
    return (
        f"the target of each of {number} trained tokens is {words}, not the next token of its row"
    )


_ADVICE = {
    "same": "set label_smoothing_factor to 0; or shift the labels in a loss of your own",
    "after": "shift labels once: in the collator, or in the model or the loss",
}


def _other(taught: Sequence[Forward]) -> str:
    """Why the weights say nothing of a mean over tokens."""
    worst = max(taught, key=lambda each: each.next)
    if not worst.plain:
        return f"not plain cross-entropy of the next token (residual {worst.next:.1e})"
    negative = sum(each.negative * each.count for each in taught)
    if negative > 0:
        share = negative / sum(each.count for each in taught)
        return f"weights of both signs ({share:.0%} negative): preferences or a policy gradient"
    return ""


def _unequal(taught: Sequence[Forward], step: int, by_class: bool) -> list[Entry]:
    """Tokens do not weigh the same, and why. A note where the model's class has it so: the Trainer
    takes each micro-batch's mean for a class that says accepts_loss_kwargs = False."""
    low, high = min(taught, key=lambda e: e.median), max(taught, key=lambda e: e.median)
    several = len(taught) > len({(each.rank, each.round) for each in taught})
    limit = EQUAL if all(each.precise for each in taught) else EQUAL_SHORT
    inside = max(each.ninetieth / each.tenth for each in taught)
    ratio = high.median / low.median
    if max(inside, ratio) <= limit:
        return []
    means = _means(taught, limit) if inside <= limit else ""
    if not means or several:  # each of two losses that are added may be a mean
        why = f"trained tokens weigh differently, by a factor of {max(inside, ratio):.2g}"
        return [Entry("VG621", "note", why, since=step)]
    why = (
        f"tokens count unequally, up to {ratio:.2g} times: the loss averages one mean per {means} "
        f"({_named(high)}: {high.count:.0f} targets, {_named(low)}: {low.count:.0f})"
    )
    why += ", as the model's class has it (accepts_loss_kwargs = False)" if by_class else ""
    level: Level = "warning" if ratio >= MATERIAL and not by_class else "note"
    return [Entry("VG621", level, why, since=step, size=ratio - 1, advice=_MEANS)]


_MEANS = "divide the summed loss by the step's target tokens (num_items_in_batch)"


def _named(each: Forward) -> str:
    return f"micro-batch {each.round} on rank {each.rank}"


def _means(taught: Sequence[Forward], limit: float) -> str:
    """Whether parts that weigh the same explain it: of each rank, or of each forward."""
    ranks = sorted({each.rank for each in taught})
    parts = [[each for each in taught if each.rank == rank] for rank in ranks]
    even = all(_alike([each.median for each in part], limit) for part in parts)
    if even and _alike([sum(each.weight for each in part) for part in parts], limit):
        return "rank"
    return "micro-batch" if _alike([each.weight for each in taught], limit) else ""


def _alike(values: Sequence[float], limit: float) -> bool:
    return max(values) <= limit * min(values)


def _whole(page: Page) -> bool:
    """Whether each forward of the window had its backward, and was read: somebody may have taken
    gradients away between two of them."""
    return bool(len(set(page["targets"]["rounds"])) == page["micro"])


def _scale(
    total: float,
    taught: Sequence[Forward],
    world: int,
    declared: int,
    step: int,
    memory: dict[str, Any],
) -> list[Entry]:
    """The weights do not sum to 1. A warning once two windows show the same known factor: the
    last window of an epoch may have fewer micro-batches. As many times as there were backwards is
    one only where that accumulation is ``declared``: two losses may each have a backward, and a
    loss of the user's own may leave batches out."""
    if BALANCED[0] <= total <= BALANCED[1]:
        memory.clear()
        return []
    kind, known = _factor(total, taught, world, declared)
    meant = declared > 1 or (kind.endswith("ranks") and declared > 0)
    again = bool(kind) and meant and memory.get("factor") == kind
    first = memory.setdefault("since", step)
    memory["factor"] = kind
    why = f"the weights of all trained tokens sum to {total:.4g} instead of 1"
    why += f": the loss is {known}" if known else ""
    level: Level = "warning" if again else "note"
    size = abs(total - 1)
    return [Entry("VG622", level, why, since=first, size=size, advice=_SUM if known else "")]


_SUM = "divide once, by num_items_in_batch"


def _factor(total: float, taught: Sequence[Forward], world: int, declared: int) -> tuple[str, str]:
    """What the sum is as large as, or one part of, and in words; "" if nothing is."""
    rounds = dict.fromkeys((each.rank for each in taught), 0)
    for each in taught:
        rounds[each.rank] = max(rounds[each.rank], each.round + 1)
    micro = next(iter(rounds.values()))
    if len(set(rounds.values())) > 1 or len(taught) > sum(rounds.values()):
        return "", ""
    both = f"{micro} micro-batches times {world} ranks"
    ways = (("micro-batches", micro, f"{micro} micro-batches"), ("ranks", world, f"{world} ranks"),
            ("both", micro * world, both))  # fmt: skip
    for kind, number, words in ways:
        if number > 1 and max(total / number, number / total) <= CLOSE:
            return f"times {kind}", f"{number} times too large, as there are {words}"
        if number > 1 and micro >= declared and max(total * number, 1 / number / total) <= CLOSE:
            return f"by {kind}", f"{number} times too small, as there are {words}"
    return "", ""
