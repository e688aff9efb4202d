"""Which rank this process is, of how many: torch's own answer, else the launcher's."""

from __future__ import annotations

import os
import sys
from typing import Any

_LAUNCHERS = (
    ("RANK", ("WORLD_SIZE",)),  # torchrun, accelerate, deepspeed
    ("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    ("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
)


def rank() -> int:
    """Global rank: of ``torch.distributed`` once it is initialised, else of the launcher; else 0.
    Nothing is imported for it."""
    dist = group()
    return int(dist.get_rank()) if dist is not None else _launched()[0]


def world() -> int:
    """How many ranks there are, read from where `rank` is read; else 1."""
    dist = group()
    return int(dist.get_world_size()) if dist is not None else _launched()[1]


def worker() -> int | None:
    """Number of this dataloader worker, None in a rank's main process."""
    data = sys.modules.get("torch.utils.data")
    ask = getattr(data, "get_worker_info", None)
    info = ask() if ask is not None else None
    return None if info is None else int(info.id)


def group() -> Any:
    """``torch.distributed`` if it is initialised, else None."""
    dist = sys.modules.get("torch.distributed")
    ready = getattr(dist, "is_initialized", None)  # None also while torch.distributed is imported
    return dist if ready is not None and ready() else None


def _launched() -> tuple[int, int]:
    for name, sizes in _LAUNCHERS:
        number = _number(name)
        if number is None:
            continue
        size = next((found for found in map(_number, sizes) if found is not None), number + 1)
        return number, max(size, number + 1)
    return 0, 1


def _number(name: str) -> int | None:
    value = os.environ.get(name, "").strip()
    return int(value) if value.isdecimal() else None
