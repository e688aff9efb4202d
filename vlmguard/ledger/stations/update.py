"""The station update: what is in the optimizer and had a gradient moved, by its group's learning
rate; what is frozen did not; nothing trainable is missing there; tied tensors are one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vlmguard.ledger.account import Account, Entry, Page, Verdict
from vlmguard.ledger.stations import named

NAME = "update"
SURE = 4
"""Sampled entries of a tensor that should have moved, from which one that did not is told; of a
smaller tensor all of them."""
ENOUGH = 64
"""Sampled entries with a gradient from which the share of updates that are rounded away is told."""
LOST, SHOWN = 0.9, 0.5
"""Shares of updates that round to nothing: from which it is a warning, and a note."""
WARM = 0.5
"""Part of the highest learning rate from which a schedule is taken to have warmed up."""
_HALVES = ("bfloat16", "float16")


@dataclass
class Row:
    """One tensor's sampled entries, over all ranks that were heard."""

    group: int
    trains: bool
    master: bool
    entries: float = 0
    graded: float = 0
    due: float = 0
    moved: float = 0
    both: float = 0
    most: float = 0
    square: float = 0

    def add(self, numbers: Sequence[float]) -> None:
        """What one rank read."""
        _, graded, due, moved, both, most, square = numbers
        self.entries += numbers[0]
        self.graded += graded
        self.due += due
        self.moved += moved
        self.both += both
        self.most += most
        self.square += square

    @property
    def still(self) -> bool:
        """Whether it did not move though it should have."""
        return self.moved == 0 and self.due >= max(min(SURE, self.graded), 1)

    @property
    def frozen_moved(self) -> bool:
        """Whether it moved though it is frozen and got no gradient."""
        return not self.trains and self.graded == 0 and self.moved > 0


def judge(pages: Sequence[Page | None], account: Account, memory: dict[str, Any]) -> Verdict:
    """Judge one window."""
    heard = [page for page in pages if page is not None and page.get(NAME)]
    if not heard:
        return Verdict(NAME, "idle")
    read = [page[NAME] for page in heard]
    step = int(heard[0]["step"])
    rows = _rows(read)
    shown = _shown(rows, read[0], account, memory)
    if any(_infinite(each) for each in read):
        reason = "the step was left out: gradients were not finite"
        return Verdict(NAME, "cannot tell", reason=reason, shown={**shown, "left out": 1})
    if sum(int(page.get("skipped", 0)) for page in heard):
        shown["left out before"] = max(int(page.get("skipped", 0)) for page in heard)
    judged = _Judged(rows, read, account, memory, step)
    entries = tuple(judged.entries())
    wrong = any(entry.level == "warning" for entry in entries)
    reason = "" if wrong else judged.why_not()
    state = "differs" if wrong else "cannot tell" if reason else "balances"
    return Verdict(NAME, state, entries, reason, shown)  # type: ignore[arg-type]


def _rows(read: Sequence[Mapping[str, Any]]) -> dict[int, Row]:
    """Tensor → its row."""
    found: dict[int, Row] = {}
    for each in read:
        for at, n in enumerate(each["index"]):
            row = Row(each["group"][at], bool(each["trains"][at]), bool(each["master"][at]))
            numbers = [each["entries"][at], *each["rows"][at]]
            if all(map(math.isfinite, numbers)):
                found.setdefault(n, row).add(numbers)
    return found


def _infinite(read: Mapping[str, Any]) -> bool:
    found = read.get("infinite")
    while isinstance(found, list):
        found = found[0] if found else None
    return bool(found)


class _Judged:
    """The entries of one window."""

    def __init__(
        self, rows: Mapping[int, Row], read: Sequence[Mapping[str, Any]], account: Account,
        memory: dict[str, Any], step: int,
    ) -> None:  # fmt: skip
        self.rows, self.read, self.account, self.step = rows, read, account, step
        self._since: dict[str, int] = memory.setdefault("since", {})
        self.trained = [n for n, row in rows.items() if row.group >= 0 and row.trains]

    def entries(self) -> Iterator[Entry]:
        for found in (self._missing(), self._still(), self._rounded(), self._frozen()):
            if found is not None:
                yield found
        yield from self._untied()

    def why_not(self) -> str:
        """Why nothing is known of the step; "" if something is."""
        graded = [n for n, row in self.rows.items() if row.graded]
        if not graded:
            return "no gradient was seen where weights were sampled"
        held = [self.rows[n] for n in graded if n in self.trained]
        lr = self.read[0]["lr"]
        explained = any(row.moved for row in held) or all(_number(lr, r.group) == 0 for r in held)
        if self.read[0]["family"] or not held or explained:
            return ""
        return "no weight moved; this optimizer's steps are unknown"

    def _first(self, cause: str) -> int:
        return self._since.setdefault(cause, self.step)

    def _missing(self) -> Entry | None:
        missing = set.intersection(*(set(each["missing"]) for each in self.read))
        if not missing:
            return None
        trainable = [n for n, tensor in enumerate(self.account.tensors) if tensor.trainable]
        what = named.told(self.account, missing, {*trainable, *missing})
        if self.trained:
            advice = "pass them to the optimizer; or freeze what should not train"
        else:
            advice = "make the optimizer once the model is final: with adapters, wrapped or sharded"
        it = "it" if len(missing) == 1 else "them"
        why = f"{what} will never train: no optimizer holds {it}"
        return Entry("VG650", "warning", why, what, self._first("missing"), advice=advice)

    def _still(self) -> Entry | None:
        still = [n for n in self.trained if self.rows[n].still]
        if not still:
            return None
        what = named.told(self.account, still, self.trained)
        first = self._first("still")
        rate = self._rate(still)
        why = f"{what} had a gradient and did not move in the step, at a learning rate of {rate}"
        if len(still) == len([n for n in self.trained if self.rows[n].due]):
            why = f"no weight moved in the step, though all had gradients ({what}; learning rate {rate})"  # noqa: E501
        advice = (
            "look for what skips the optimizer's step; or for what puts the weights back after it"
        )
        return Entry("VG651", "warning", why, what, first, advice=advice)

    def _rate(self, numbers: Sequence[int]) -> str:
        rates = {_number(self.read[0]["lr"], self.rows[n].group) for n in numbers}
        known = sorted(rate for rate in rates if rate is not None)
        return " to ".join(f"{rate:.3g}" for rate in known[:1] + known[1:][-1:]) or "unknown"

    def _rounded(self) -> Entry | None:
        """Weights in half precision without a master, whose updates are too small for them."""
        half = [
            n for n in self.trained
            if not self.rows[n].master and self.account.tensors[n].dtype in _HALVES
            and not self.rows[n].still
        ]  # fmt: skip
        if not self.read[0]["family"] or not half:
            return None
        graded = sum(self.rows[n].graded for n in half)
        moved = sum(self.rows[n].both for n in half)
        could = sum(self.rows[n].most for n in half)
        warm = all(self._warm(self.rows[n].group) for n in half)
        lost = 1 - (moved if warm else max(moved, could)) / max(graded, 1)
        if graded < ENOUGH or lost < SHOWN:
            return None
        what = named.told(self.account, half, self.trained)
        kind = self.account.tensors[half[0]].dtype
        why = (
            f"{100 * lost:.0f} % of the updates round to zero at a learning rate of "
            f"{self._rate(half)}: {kind} weights without an fp32 master ({what})"
        )
        advice = "load the weights in fp32 and train with bf16 autocast; or raise the learning rate"
        level = "warning" if lost >= LOST else "note"
        first = self._first("rounded")
        return Entry("VG651", level, why, what, first, lost, advice)  # type: ignore[arg-type]

    def _warm(self, group: int) -> bool:
        rate, peak = (_number(self.read[0][key], group) for key in ("lr", "peak"))
        return rate is None or peak is None or rate >= WARM * peak

    def _frozen(self) -> Entry | None:
        moved = [n for n, row in self.rows.items() if row.frozen_moved]
        if not moved:
            return None
        frozen = [n for n, row in self.rows.items() if not row.trains]
        what = named.told(self.account, moved, frozen)
        held = any(self.rows[n].group >= 0 for n in moved)
        advice = (
            "set their gradients to None when you freeze them; or make the optimizer anew: it "
            "still moves them by momentum or weight decay"
            if held
            else "look for what else writes to these weights inside the optimizer's step"
        )
        why = f"{what} moved in the optimizer's step though frozen, and without a gradient"
        other = not held and any(each.get("hooked") for each in self.read)
        level: Literal["warning", "note"] = "note" if other else "warning"
        return Entry("VG652", level, why, what, self._first("frozen"), advice=advice)

    def _untied(self) -> Iterator[Entry]:
        for names in self.read[0].get("untied", ()):
            what = " and ".join(names)
            first = self._first(f"untied {what}")
            why = f"{what} were one tensor and are no longer: only one of them is trained on"
            yield Entry("VG652", "warning", why, what, first, advice="call tie_weights() again")
        alike = self.read[0].get("alike") or ()
        for names, same in zip(self.read[0].get("copies", ()), alike, strict=False):
            if same:
                what = " and ".join(names)
                first = self._first(f"copies {what}")
                why = f"{what} will differ: the class ties them, but here they are two tensors"
                advice = _IN_PEFT if self.read[0].get("adapted") else _TIE
                yield Entry("VG652", "warning", why, what, first, advice=advice)


_TIE = "call model.tie_weights()"
_IN_PEFT = "ensure_weight_tying=True in PEFT's LoraConfig; or tie_word_embeddings=False"


def _number(values: Sequence[Any], place: int) -> float | None:
    found = values[place] if 0 <= place < len(values) else None
    while isinstance(found, list) and found:
        found = found[0]
    return float(found) if isinstance(found, (int, float)) else None


def _shown(
    rows: Mapping[int, Row], read: Mapping[str, Any], account: Account, memory: dict[str, Any]
) -> dict[str, Any]:
    """Learning rates by group and tower, what moved, how far; the rates of earlier windows."""
    rates = [_number(read["lr"], n) for n in range(len(read["lr"]))]
    towers = {}
    for kind, numbers in named.by_kind(account.tensors).items():
        found = [rows[n] for n in numbers if n in rows]
        held = [row for row in found if row.group >= 0 and row.trains]
        if held:
            towers[kind] = _tower(numbers, rows, account, rates)
    words = ", ".join(f"{kind} {_words(tower['lr'])}" for kind, tower in towers.items())
    series = memory.setdefault("rates", [])
    series.append(max((rate for rate in rates if rate is not None), default=None))
    del series[:-20]
    groups = [{"lr": rate} for rate in rates]
    return {"groups": groups, "towers": towers, "rates": words, "schedule": list(series)}


def _tower(
    numbers: Sequence[int], rows: Mapping[int, Row], account: Account,
    rates: Sequence[float | None],
) -> dict[str, Any]:  # fmt: skip
    found = [(n, rows[n]) for n in numbers if n in rows and rows[n].trains and rows[n].group >= 0]
    squares = [row.square / row.entries * account.tensors[n].numel for n, row in found]
    held = sorted({rate for _, row in found if (rate := _number(rates, row.group)) is not None})
    return {
        "moved": sum(row.moved > 0 for _, row in found),
        "update": math.sqrt(sum(squares)),
        "lr": held,
    }


def _words(rates: Sequence[float]) -> str:
    return " to ".join(f"{rate:.3g}" for rate in [*rates[:1], *rates[1:][-1:]]) or "unknown"
