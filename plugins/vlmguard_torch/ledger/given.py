"""What the optimizer is about to get: `p.grad`, or the shards of it that this rank holds."""

from __future__ import annotations

from typing import Any

import torch

from vlmguard_torch.ledger import fsdp2, given_deepspeed
from vlmguard_torch.ledger.reader import Subject
from vlmguard_torch.ledger.sketch import readable, sketch, sums


class Given:
    """Sketches of the optimizer's gradients, a row a watched tensor.

    Attributes:
        read: 0 for a tensor without a gradient, 1 for a whole one, 2 for this rank's part.
        square: sum of squares of its entries.
        peak: its largest entry.
    """

    def __init__(self, home: torch.device, index: list[int]) -> None:
        self.index, self.home = index, home
        self.sums = sums(home, len(index))
        self.square, self.peak = (sums(home, len(index), 1) for _ in range(2))
        self.read, self.eps = [0] * len(index), [0.0] * len(index)
        self.unread: dict[int, str] = {}

    def take(self, subject: Subject) -> None:
        """Read each; the device is not waited for."""
        for row, n in enumerate(self.index):
            for fragment in fragments(subject, n):
                self._add(row, n, *fragment)

    def _add(self, row: int, n: int, part: Any, start: int, weight: float) -> None:
        if not readable(part):
            self.unread[n] = (
                "the optimizer's gradient is sparse, or split in a way that is not read"
            )
            return
        self.read[row] = 1 if weight == 1.0 else 2
        self.eps[row] = max(self.eps[row], torch.finfo(part.dtype).eps)
        if part.numel():
            self.sums[row] += sketch(part, start).to(self.home, non_blocking=True) * weight
            part = part.detach()
            norm = torch.linalg.vector_norm(part, dtype=torch.float32)
            peak = torch.maximum(*(each.abs() for each in torch.aminmax(part)))
            self.square[row] += (norm.double() ** 2 * weight).to(self.home, non_blocking=True)
            self.peak[row] = torch.maximum(self.peak[row], peak.to(self.home, non_blocking=True))


def fragments(subject: Subject, n: int) -> list[given_deepspeed.Fragment]:
    """This rank's parts of the gradient of tensor ``n``; empty without one."""
    if subject.engine is not None:
        return given_deepspeed.fragments(subject.parameters[n])
    gradient = subject.parameters[n].grad
    return [] if gradient is None else [fsdp2.local(gradient, subject.account.world)]
