"""What the optimizer is about to get: `p.grad`, or the shards of it that this rank holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from vlmguard_torch.ledger.gradients import fsdp2_shards, optimizer_input_deepspeed
from vlmguard_torch.ledger.gradients.sketch import norm, readable, sketch, table, times
from vlmguard_torch.ledger.reader import Subject


class _Read(NamedTuple):
    """A tensor's sketch, norm, smallest and largest entry, each on its own device."""

    sums: torch.Tensor
    norm: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor

    def joined(self, other: _Read) -> _Read:
        """With another part of the same tensor."""
        return _Read(
            self.sums + other.sums,
            torch.hypot(self.norm, other.norm),
            torch.minimum(self.low, other.low),
            torch.maximum(self.high, other.high),
        )


class Given:
    """Sketches of the optimizer's gradients, a row a watched tensor.

    Attributes:
        read: 0 for a tensor without a gradient, 1 for a whole one, 2 for this rank's part.
        square: sum of squares of its entries.
        peak: its largest entry.
    """

    def __init__(self, home: torch.device, index: list[int]) -> None:
        self.index, self.home = index, home
        self.read, self.eps = [0] * len(index), [0.0] * len(index)
        self.unread: dict[int, str] = {}

    def take(self, subject: Subject) -> None:
        """Read each; the device is not waited for."""
        every = [self._row(subject, row, n) for row, n in enumerate(self.index)]
        self.sums = table([each.sums if each else None for each in every], self.home)
        size, low, high = (
            table([each[which].view(1) if each else None for each in every], self.home, 1)
            for which in (1, 2, 3)
        )
        self.square, self.peak = size.square(), torch.maximum(high, -low)

    def _row(self, subject: Subject, row: int, n: int) -> _Read | None:
        """None where there is no gradient."""
        found: _Read | None = None
        for fragment in fragments(subject, n):
            part = self._part(row, n, *fragment)
            if part is not None:
                found = part if found is None else found.joined(part)
        return found

    def _part(self, row: int, n: int, part: Any, start: int, weight: float) -> _Read | None:
        if not readable(part):
            self.unread[n] = (
                "the optimizer's gradient is sparse, or split in a way that is not read"
            )
            return None
        self.read[row] = 1 if weight == 1.0 else 2
        self.eps[row] = max(self.eps[row], torch.finfo(part.dtype).eps)
        if not part.numel():
            return None
        # A norm of order infinity takes twenty times as long on the CPU.
        low, high = torch.aminmax(part.detach())
        return _Read(times(sketch(part, start), weight), times(norm(part), weight**0.5), low, high)


def fragments(subject: Subject, n: int) -> list[optimizer_input_deepspeed.Fragment]:
    """This rank's parts of the gradient of tensor ``n``; empty without one."""
    if subject.engine is not None:
        return optimizer_input_deepspeed.fragments(subject.parameters[n])
    gradient = subject.parameters[n].grad
    return [] if gradient is None else [fsdp2_shards.local(gradient, subject.account.world)]
