"""Station reduce: what the backward made, averaged over ranks, is what the optimizer gets."""

from __future__ import annotations

import math
import statistics
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from vlmguard.ledger.account import Account, Entry, Page, Verdict
from vlmguard.ledger.stations.difference import WRONG, advice, difference, sentence
from vlmguard.ledger.stations.factor import Seen, Told, explain
from vlmguard.ledger.stations.flows import Flow, flows
from vlmguard.ledger.stations.vectors import length, mean, plus

UNCHANGED = 1e-2
"""A factor is 1 up to this much."""
COARSE = 0.3
"""A bound above which nothing can be said: hundreds of parts, added in bf16."""


def judge(pages: Sequence[Page | None], account: Account, memory: dict[str, Any]) -> Verdict:
    """See `vlmguard.ledger.judged_window.Judge`."""
    heard = [page for page in pages if page is not None and "reduce" in page]
    ranks = max(len(pages), account.world)
    if len(heard) < ranks:
        return _cannot(f"{len(heard)} of {ranks} ranks were heard")
    every = flows(heard, account.tensors)
    if not all(flow.finite for flow in every):
        return _cannot("gradients are not finite")
    seen = [flow for flow in every if flow.bound < COARSE and _speaks(flow, memory)]
    ran = any(any(flow.parts) for flow in seen)
    if ran and not any(flow.has for flow in seen):
        return _cannot("no gradient is left at the step: the backward itself uses or drops it")
    verdict = _Window(seen, heard, account, memory).verdict() if ran else _cannot(_nothing(every))
    _remember(every, memory)
    return verdict


def _cannot(reason: str) -> Verdict:
    return Verdict("reduce", "cannot tell", reason=reason)


def _nothing(every: Iterable[Flow]) -> str:
    if any(any(flow.parts) for flow in every):
        return "too many parts were added in low precision"
    return "no backward was seen"


def _speaks(flow: Flow, memory: Mapping[str, Any]) -> bool:
    """A hook that never fired says nothing, unless it did in an earlier window."""
    return any(flow.parts) or flow.place in memory.get("before", {})


def _remember(every: Iterable[Flow], memory: dict[str, Any]) -> None:
    """What was made of it in this window, and given: it may come again."""
    before = memory.setdefault("before", {})
    for flow in every:
        if any(flow.parts):
            alike = len({tuple(each) for each in flow.given}) == 1
            made = flow.sums[0]
            rest = [plus(made, mean(flow.first), -1.0)] if max(flow.parts) > 1 else []
            kept = (made, *(flow.given[:1] if alike else ()), *rest)
            before[flow.place] = [array("f", each) for each in kept]


class _Window:
    """The flows of one window, on all ranks."""

    def __init__(
        self, seen: list[Flow], heard: Sequence[Page], account: Account, memory: dict[str, Any]
    ) -> None:
        self.seen, self.account, self.memory = seen, account, memory
        self.read = [page["reduce"] for page in heard]
        self.now = int(heard[0]["step"])
        self.hooked = {place for each in self.read for place in each.get("hooked", ())}
        self.replaced = {place for each in self.read for place in each.get("replaced", ())}
        self.comm_hook = next((n for each in self.read for n in each.get("comm_hooks", ())), "")

    def verdict(self) -> Verdict:
        """What is wrong, what is only shown, and the numbers."""
        told = explain(self._factor(), self.account, self.memory)
        entries = (*self._scaled(told), *self._uncleared(), *self._odd())
        wrong = any(entry.level == "warning" for entry in entries)
        state: Literal["differs", "balances"] = "differs" if wrong else "balances"
        return Verdict("reduce", state, entries, shown=self._numbers(told))

    @cached_property
    def factor(self) -> float:
        """The factor of most tensors; 1 where they have none in common, or where all of one tower
        have that: what scales gradients as a whole leaves none out."""
        by_tower: dict[str, list[float]] = {}
        for flow in self.seen:
            if (factor := flow.factor) is not None:
                by_tower.setdefault(self.account.tensors[flow.place].kind, []).append(factor)
        found = [factor for factors in by_tower.values() for factor in factors]
        common = statistics.median_low(found) if found else 1.0
        for factors in by_tower.values():
            if len(factors) > 1 and all(abs(factor - 1.0) < UNCHANGED for factor in factors):
                return 1.0
        fit = sum(flow.balances(common) for flow in self.seen)
        return common if 2 * fit >= len(found) else 1.0

    @cached_property
    def odd(self) -> list[Flow]:
        """Tensors of which the optimizer gets something else."""
        made = [f for f in self.seen if any(f.parts) and not f.balances(self.factor)]
        unmade = [f for f in self.seen if not any(f.parts) and any(map(length, f.given))]
        return [*made, *unmade]

    @property
    def norm(self) -> float:
        """Of all gradients that the optimizer gets."""
        return math.sqrt(sum(flow.square for flow in self.seen))

    def _factor(self) -> Seen:
        scale = self.read[0].get("scale")
        return Seen(
            self.factor,
            float(scale if scale is not None else 1.0),
            self.norm,
            self.read[0].get("max_norm"),
            max(max(flow.parts) for flow in self.seen),
            bool(self.comm_hook),
            min(flow.bound for flow in self.seen),
        )

    def _since(self, what: str, step: int) -> int:
        """The first step that it was seen in."""
        return int(self.memory.setdefault("since", {}).setdefault(what, step))

    def _scaled(self, told: Told) -> list[Entry]:
        if not told.why:
            return []
        since, level, why = self._since("factor", self.now), told.level, told.why
        if self.hooked.issuperset(flow.place for flow in self.seen):
            level, why = "note", f"{self.factor:.3g} times the mean gradient, by the user's hooks"
        tip = told.advice if level == "warning" else ""
        return [Entry("VG641", level, why, "all tensors", since, self.factor, tip)]

    def _uncleared(self) -> list[Entry]:
        """Only what came since None balances, and some of it came before the last step."""
        if not all(each.get("later") for each in self.read):
            return []
        kept = [f for f in self.seen if f.carried and any(f.parts) and f.by(self.factor) == "none"]
        if not kept:
            return []
        since = self._since("uncleared", self.now - 1)
        why = f"gradients were not cleared since step {since}: the optimizer gets them again"
        tip = "call optimizer.zero_grad() after each step"
        return [Entry("VG642", "warning", why, self._which(kept), since, advice=tip)]

    def _odd(self) -> list[Entry]:
        by: dict[tuple[str, int | None], list[Flow]] = {}
        peaks = Counter(flow.peak for flow in self.odd)
        for flow in self.odd:
            earlier = self.memory.get("before", {}).get(flow.place, ())
            word, rank = difference(flow, self.factor, earlier)
            if peaks[flow.peak] > 1:
                word, rank = "by value", None
            if any(flow.parts) or word == "earlier":
                by.setdefault((word, rank), []).append(flow)
        return [self._entry(word, rank, found) for (word, rank), found in by.items()]

    def _entry(self, word: str, rank: int | None, found: Sequence[Flow]) -> Entry:
        since = self._since(f"{word} {rank}", self.now)
        size = max(map(self._off, found))
        why = sentence(word, rank) + (self._how() if word in ("own", "ranks") else "")
        level: Literal["note", "warning"] = "note" if self._meant(word, found) else "warning"
        what = self._which(found)
        cause = "no_sync" if word in ("own", "ranks") and "no_sync" in why else word
        tip = advice(cause, self.account.strategy) if level == "warning" else ""
        return Entry("VG640", level, why + self._by(found), what, since, size, tip)

    def _meant(self, word: str, found: Sequence[Flow]) -> bool:
        """Whether a user's own code may have done it, and meant it."""
        if self.comm_hook or any(flow.place in self.hooked for flow in found):
            return True
        if word == "grown" and self._noise(self.odd):
            return True
        if word == "grown" and self.replaced.issuperset(flow.place for flow in found):
            return True  # the user's code put other gradients in their place
        if word == "grown" and self._alone:
            return True  # the user's code may add a weight decay, or the gradient of another task
        if word == "own" and self._ran() == {"no_sync"}:
            return True  # local SGD does so: it averages weights, not gradients
        # No code of the user's can run between DeepSpeed's backward and its step.
        return word not in WRONG and not self.account.strategy.startswith("zero")

    @property
    def _alone(self) -> bool:
        """Whether nothing but the user's code stands between backward and step."""
        return self.account.world == 1 and self.account.strategy in ("", "single")

    def _noise(self, found: Sequence[Flow]) -> bool:
        """Whether each entry was changed by about as much: noise that was added."""
        sizes = []
        for flow in found:
            entries = self.account.tensors[flow.place].numel
            sizes.append(length(plus(flow.given[0], flow.sums[0], -1.0)) / math.sqrt(entries))
        return len(sizes) > 3 and max(sizes) < 5 * statistics.median(sizes) < 25 * min(sizes)

    def _by(self, found: Sequence[Flow]) -> str:
        if self.comm_hook:
            return f", by the communication hook {self.comm_hook}"
        return ", by the user's hook" if any(f.place in self.hooked for f in found) else ""

    def _ran(self) -> set[str]:
        """Where the forwards of the window ran."""
        return {where for each in self.read for where in each.get("forwards", ())}

    def _how(self) -> str:
        """Where the forward of the last micro-batch ran."""
        last = {each["forwards"][-1] for each in self.read if each.get("forwards")}
        if self._ran() == {"no_sync"}:
            return ": all micro-batches ran under no_sync(), as in local SGD"
        if last == {"no_sync"}:
            return ": the last micro-batch ran under no_sync()"
        if last == {""} and self.account.strategy == "ddp":
            return ": the forward went past the DDP wrapper"
        return ""

    def _which(self, found: Iterable[Flow]) -> str:
        """ "37 of 60 vision tensors, 3 of 90 llm tensors"."""
        total = Counter(each.kind for each in self.account.tensors if each.trainable)
        here = Counter(self.account.tensors[flow.place].kind for flow in found)
        return ", ".join(f"{n} of {max(n, total[kind])} {kind} tensors" for kind, n in here.items())

    def _numbers(self, told: Told) -> dict[str, Any]:
        """For the line and the page."""
        squares: Counter[str] = Counter()
        for flow in self.seen:
            squares[self.account.tensors[flow.place].kind] += flow.square  # type: ignore[assignment]
        return {
            "tensors": len(self.seen),
            "odd": len(self.odd),
            "off": max(self._off(flow) for flow in self.seen),
            "factor": self.factor,
            "norm": self.norm,
            "norms": {kind: math.sqrt(square) for kind, square in squares.items()},
            "clipped": told.clipped,
        }

    def _off(self, flow: Flow) -> float:
        """Relative difference to the nearer of two sums, on the rank where it is largest."""
        return min(flow.furthest(self.factor))
