"""What the optimizer is about to get: `p.grad`, or the shards of it that this rank holds."""

from __future__ import annotations

from typing import Any

import torch

from vlmguard_torch.ledger.gradients import fsdp2_shards, optimizer_input_deepspeed
from vlmguard_torch.ledger.gradients.sketch import readable, sketch, table, times, wide
from vlmguard_torch.ledger.reader import Subject


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
        self.sums = table([sums for sums, _, _ in every], self.home)
        self.square, self.peak = (
            table([each[which] for each in every], self.home, 1) for which in (1, 2)
        )

    def _row(self, subject: Subject, row: int, n: int) -> list[torch.Tensor | None]:
        """A tensor's sketch, square and peak; None where there is no gradient."""
        found: list[torch.Tensor | None] = [None, None, None]
        for fragment in fragments(subject, n):
            part = self._part(row, n, *fragment)
            if part is not None and found[0] is not None:
                part = [found[0] + part[0], found[1] + part[1], torch.maximum(found[2], part[2])]
            found = part or found
        return found

    def _part(
        self, row: int, n: int, part: Any, start: int, weight: float
    ) -> list[torch.Tensor] | None:
        if not readable(part):
            self.unread[n] = (
                "the optimizer's gradient is sparse, or split in a way that is not read"
            )
            return None
        self.read[row] = 1 if weight == 1.0 else 2
        self.eps[row] = max(self.eps[row], torch.finfo(part.dtype).eps)
        if not part.numel():
            return None
        part = part.detach()
        norm = torch.linalg.vector_norm(part, dtype=torch.float32).to(wide(part.device))
        # A norm of order infinity takes twenty times as long on the CPU.
        peak = torch.stack(torch.aminmax(part)).abs().amax().to(wide(part.device))
        square = (norm * norm).view(1)
        return [times(sketch(part, start), weight), times(square, weight), peak.view(1)]


def fragments(subject: Subject, n: int) -> list[optimizer_input_deepspeed.Fragment]:
    """This rank's parts of the gradient of tensor ``n``; empty without one."""
    if subject.engine is not None:
        return optimizer_input_deepspeed.fragments(subject.parameters[n])
    gradient = subject.parameters[n].grad
    return [] if gradient is None else [fsdp2_shards.local(gradient, subject.account.world)]
