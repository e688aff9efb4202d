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
        parts = (fragment(subject, n) for n in self.index)
        every = [part and self._read(row, *part) for row, part in enumerate(parts)]
        self.sums = table([each.sums if each else None for each in every], self.home)
        size, low, high = (
            table([each[which].view(1) if each else None for each in every], self.home, 1)
            for which in (1, 2, 3)
        )
        self.square, self.peak = size.square(), torch.maximum(high, -low)

    def _read(self, row: int, part: Any, start: int, weight: float) -> _Read | None:
        """None where nothing of it can be read."""
        if not readable(part):
            self.unread[self.index[row]] = (
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


def fragment(subject: Subject, n: int) -> optimizer_input_deepspeed.Fragment | None:
    """This rank's part of the gradient of tensor ``n``; None without one."""
    if subject.engine is not None:
        return optimizer_input_deepspeed.fragment(subject.parameters[n])
    gradient = subject.parameters[n].grad
    return None if gradient is None else fsdp2_shards.local(gradient, subject.account.world)
