"""The truth: gloo moves the data, every call is written down first."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from vlmguard.ranks.collective_calls import Call
from vlmguard.ranks.group import NotedGroup, join

_PAIRED = {
    "allgather_into_tensor_coalesced": "_allgather_base",
    "reduce_scatter_tensor_coalesced": "_reduce_scatter_base",
}
"""Calls that gloo lacks: one plain call for each pair of tensors."""


class GlooGroup(NotedGroup):
    """Hands every call to a real gloo group."""

    kind = "noted_gloo"

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroupGloo(store, rank, size, timeout)

    def carry_out(self, call: Call, args: tuple[Any, ...]) -> Any:
        """gloo's own Work, or what gloo raises."""
        if call.op not in _PAIRED:
            return getattr(self.gloo, call.op)(*args)
        single = getattr(self.gloo, _PAIRED[call.op])
        works = [single(output, given) for output, given in zip(args[0], args[1], strict=True)]
        for work in works[:-1]:
            work.wait()
        return works[-1]


def enter(rank: int, size: int, scratch: Path) -> None:
    """Join the ranks over a file in ``scratch`` and the loopback device."""
    store = dist.FileStore(str(scratch / "store"), size)
    join(GlooGroup.kind, GlooGroup, rank, size, store)
    # Without this a quick rank would close connections that another one still makes.
    store.set(f"joined{rank}", "")
    store.wait([f"joined{each}" for each in range(size)])
