"""Reads a checksum of each replicated weight: exact, whatever the order it is summed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from vlmguard_torch.layout import towers
from vlmguard_torch.ledger.gradients.unreadable import divides
from vlmguard_torch.ledger.reader import Reader

REPLICATED = ("ddp", "zero0", "zero1", "zero2")
"""Strategies under which each rank holds all weights."""
_MOST = 1 << 22
"""Entries that are summed at once: 32 MB."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Ranks(Reader):
    """Sums of the weights' bits after the step. Buffers may differ."""

    name = "ranks"

    def page(self) -> Mapping[str, Any] | str:
        account = self.subject.account
        whole = account.strategy in REPLICATED and not divides(self.subject)
        if account.world < 2 or not whole:
            return {}
        ignored = getattr(self.subject.model, "_ddp_params_and_buffers_to_ignore", ())
        own = {towers.plain(name) for name in ignored}  # each rank has its own, for example experts
        sums = [checksum(p) for p in self.subject.parameters]
        index = [
            n for n, found in enumerate(sums)
            if found is not None and account.tensors[n].name not in own
        ]  # fmt: skip
        home = next((found.device for found in sums if found is not None), None)
        if home is None:
            return "no weight can be read"
        found = [sums[n].to(home, non_blocking=True) for n in index]
        return {"index": index, "sums": torch.stack(found)}


def checksum(p: Any) -> Any:
    """None for what this rank holds a part of, or nothing, or in a class of its own."""
    data = p.detach()
    if hasattr(data, "__tensor_flatten__") or hasattr(p, "ds_id") or data.is_meta:
        return None
    if data.layout != torch.strided or data.itemsize not in _BITS:
        return None
    # Part by part, because torch copies what it sums to 64 bits.
    flat = data.view(_BITS[data.itemsize]).reshape(-1)
    total = torch.zeros((), dtype=torch.int64, device=data.device)
    for part in flat.split(_MOST):
        total += part.sum(dtype=torch.int64)
    return total
