"""Station reach: the tensors that the optimizer holds, and that a forward used, get a gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vlmguard.core import wiring
from vlmguard.core.facts import Wiring
from vlmguard.ledger.account import Account, Entry, Page, Verdict

AGREE = 2
"""Windows in a row that have to say the same of a tensor before anything is said."""
Fate = Literal["reached"] | Wiring
"""A gradient came, or what its module's forwards say of why none did."""
DEAD = ("no_grad", "cut")
_SILENT = ("idle", "unknown")
_WHY: Mapping[Fate, str] = {
    "no_grad": "their modules ran with gradients switched off",
    "cut": "their modules ran, and the gradient does not reach them",
    "dropped": "their modules ran, and nothing uses their output",
}
_ADVICE: Mapping[Fate, str] = {
    "no_grad": "remove no_grad; or set use_reentrant=False; or freeze what should not train",
    "cut": "look for detach() behind them; or for no_grad there; or freeze what should not train",
}


@dataclass(slots=True)
class _Past:
    """What windows said of one tensor so far.

    Attributes:
        fate: in the last one that said something.
        times: how many in a row said so.
        kinds: kinds of rows with which a gradient came.
    """

    fate: Fate = "idle"
    times: int = 0
    kinds: tuple[str, ...] = ()


def judge(pages: Sequence[Page | None], account: Account, memory: dict[str, Any]) -> Verdict:
    """See `vlmguard.ledger.judged_window.Judge`."""
    heard = [page for page in pages if page is not None and "reach" in page]
    if len(heard) < max(len(pages), account.world):
        return Verdict("reach", "cannot tell", reason="not all ranks were heard")
    window = _Window(heard, account)
    if not window.reached:
        return Verdict("reach", "idle", shown=window.numbers())
    past: dict[int, _Past] = memory.setdefault("past", {})
    for place in window.trains:
        window.add(place, past.setdefault(place, _Past()))
    entries = _entries(window, past, memory)
    wrong = any(entry.level == "warning" for entry in entries)
    state: Literal["differs", "balances"] = "differs" if wrong else "balances"
    return Verdict("reach", state, tuple(entries), shown=window.numbers())


class _Window:
    """All ranks' pages of one window."""

    def __init__(self, heard: Sequence[Page], account: Account) -> None:
        self.account, self.step = account, int(heard[0]["step"])
        self.read = [page["reach"] for page in heard]
        self.kinds = " ".join(sorted({str(kind) for page in heard for kind in page["kinds"]}))
        pairs = [
            pair for each in self.read for pair in zip(each["index"], each["parts"], strict=True)
        ]
        self.trains = sorted({place for place, _ in pairs})
        self.reached = {place for place, parts in pairs if parts}
        self.owners: dict[int, set[str]] = {}
        for each in self.read:
            for place, notes in each["owners"]:
                self.owners.setdefault(place, set()).update(notes)
        self.dark: set[str] = {kind for kind in self._kinds() if not self._of(kind) & self.reached}

    def _kinds(self) -> set[str]:
        return {self.account.tensors[place].kind for place in self.trains}

    def _of(self, kind: str) -> set[int]:
        return {place for place in self.trains if self.account.tensors[place].kind == kind}

    def _tower(self, kind: str) -> set[str]:
        return {note for each in self.read for note in each["towers"].get(kind, ())}

    def fate(self, place: int) -> Fate:
        """What became of one tensor."""
        if place in self.reached:
            return "reached"
        kind = self.account.tensors[place].kind
        own = wiring.of(self.owners.get(place, ()))
        tower = wiring.of(self._tower(kind)) if kind in self.dark else "idle"
        if tower in DEAD and own != "no_grad":
            return tower
        return tower if own in _SILENT else own

    def add(self, place: int, past: _Past) -> None:
        """This window to what is known of a tensor."""
        fate = self.fate(place)
        if fate in _SILENT:  # rows without images tell nothing about a tower
            return
        same = fate == past.fate or (fate in DEAD and past.fate in DEAD)
        past.times = past.times + 1 if same else 1
        past.fate = fate
        if fate == "reached" and self.kinds not in past.kinds:
            past.kinds = (*past.kinds, self.kinds)

    def numbers(self) -> dict[str, Any]:
        """For the line and the page."""
        return {
            "trained": _count(self.reached, self.account),
            "missed": _count(set(self.trains) - self.reached, self.account),
            "eval": sorted({kind for each in self.read for kind in each["eval"]}),
        }


def _count(places: Iterable[int], account: Account) -> dict[str, int]:
    return dict(Counter(account.tensors[place].kind for place in places))


def _entries(window: _Window, past: Mapping[int, _Past], memory: dict[str, Any]) -> list[Entry]:
    by: dict[tuple[Fate, bool], list[int]] = {}
    for place in window.trains:
        each = past[place]
        before = window.kinds in each.kinds
        told = each.fate in DEAD or (each.fate == "dropped" and not each.kinds)
        if told and each.times >= AGREE and place not in window.reached:
            by.setdefault((each.fate, before), []).append(place)
    every = (_entry(*key, found, window, memory) for key, found in by.items())
    return [entry for entry in every if entry is not None]


def _entry(
    fate: Fate, before: bool, found: list[int], window: _Window, memory: dict[str, Any]
) -> Entry | None:
    total, here = _count(window.trains, window.account), _count(found, window.account)
    what = ", ".join(f"{n} of {total[kind]} {kind} tensors" for kind, n in here.items())
    since = memory.setdefault("since", {}).setdefault((fate, before), window.step)
    if fate == "dropped" and since != window.step:
        return None  # the model is built so: it is said once
    level: Literal["note", "warning"] = "note" if fate == "dropped" else "warning"
    why = f"{what} do not train: {_WHY[fate]}"
    why += ", unlike in an earlier window of such rows" if before else ""
    whole = tuple(here) if all(n == total[kind] for kind, n in here.items()) else ()
    return Entry("VG630", level, why, what, since, advice=_ADVICE.get(fate, ""), towers=whole)
