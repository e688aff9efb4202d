"""Which process this is: its rank, and its number among a rank's dataloader workers."""

from __future__ import annotations

import os
import sys

_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def rank() -> int:
    """Global rank of this process, 0 outside a launcher."""
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return int(dist.get_rank())
    values = (os.environ.get(name, "") for name in _RANK)
    return next((int(value) for value in values if value.isdigit()), 0)


def worker() -> int | None:
    """Number of this dataloader worker, None in a rank's main process."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return None if info is None else int(info.id)
