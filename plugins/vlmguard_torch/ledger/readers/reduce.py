"""Reads station reduce: what the backward made of each tensor, and what the optimizer gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlmguard_torch.ledger.gradients import loss_scale, meddling
from vlmguard_torch.ledger.gradients.leaves import leaves_of
from vlmguard_torch.ledger.gradients.optimizer_input import Given
from vlmguard_torch.ledger.gradients.unreadable import why_not
from vlmguard_torch.ledger.reader import Reader, Subject


class Reduce(Reader):
    """Sums at the leaves, and the same sums of the optimizer's gradients."""

    name = "reduce"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._why_not = why_not(subject)
        self._leaves = leaves_of(subject)
        self._given: Given | None = None
        self._later = False

    def open(self) -> None:
        if not self._why_not:
            self._given, self._later = None, self._leaves.later
            self._leaves.open()

    def batch(self, inputs: Mapping[str, Any]) -> None:
        self._leaves.batch()

    def before(self) -> None:
        if self._why_not:
            return
        self._scale = loss_scale.scale_of(self.subject.optimizer)
        self._given = Given(self._leaves.home, self._leaves.index)
        self._given.take(self.subject)
        self._replaced = self._leaves.replaced()
        self._leaves.before()

    def after(self) -> None:
        self._leaves.after()

    def page(self) -> Mapping[str, Any] | str:
        if self._why_not or self._given is None:
            return self._why_not or "the optimizer's step was not seen"
        if self._leaves.late:
            return "the optimizer's step runs the backward itself"
        return self._read(self._given)

    def _read(self, given: Given) -> dict[str, Any]:
        leaves = self._leaves
        eps = [max(leaves.eps[n], at) for n, at in zip(leaves.index, given.eps, strict=True)]
        unread = {**leaves.unread, **given.unread}
        found = meddling.hooks(self.subject, leaves)
        first = leaves.table(leaves.first)
        return {
            "index": leaves.index,
            "parts": [leaves.parts[n] for n in leaves.index],
            "eps": eps,
            "read": given.read,
            "step": leaves.table(leaves.step).float(),
            "none": leaves.table(leaves.none).float() if leaves.clears else None,
            "first": first.float(),
            "energy": (
                leaves.table(leaves.energy, 1) + first.square().sum(1, keepdim=True)
            ).float(),
            "carried": leaves.table(leaves.carried, 1).float(),
            "given": given.sums.float(),
            "square": given.square.float(),
            "peak": given.peak.float(),
            "scale": self._scale,
            "max_norm": self.subject.extra.get("max_norm"),
            "later": self._later,
            "replaced": self._replaced,
            "forwards": [*dict.fromkeys(leaves.forwards), *leaves.forwards[-1:]],
            "unread": sorted(unread.items()),
            **found,
        }

    def close(self) -> None:
        self._leaves.close()
        self._given = None
