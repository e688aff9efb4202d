"""What one rank of a training run left behind: the file format, written in the rank and read here.

Stands beside the stand-ins because it must be importable in any environment; needs only torch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Rank:
    """One rank before and after training; `wrapped` tells DDP from a run that never was one."""

    rank: int
    world: int
    wrapped: str
    """e.g. `DistributedDataParallel`, `DeepSpeedEngine/zero3`, `none`."""
    initial: Weights
    """Trainable parameters by name (no `module.` prefix), complete, before training."""
    final: Weights
    losses: Sequence[float]
    digests: Mapping[str, str] = field(default_factory=dict)
    """sha256 of *every* parameter after training, the frozen ones too."""
    log: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """The trainer's log history: reward_std and the like."""
    extra: Mapping[str, Any] = field(default_factory=dict)


def copy(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU copy that later steps cannot touch."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def digest(tensor: torch.Tensor) -> str:
    """sha256 over the exact bytes, shape and type."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    head = f"{tensor.dtype}{tuple(tensor.shape)}".encode()
    return hashlib.sha256(head + flat.view(torch.uint8).numpy().tobytes()).hexdigest()


def plain(name: str) -> str:
    """The parameter's name without what a wrapper put in front of it."""
    while name.startswith("module."):
        name = name.removeprefix("module.")
    return name.replace("_orig_mod.", "").replace("_checkpoint_wrapped_module.", "")


def write(directory: str | os.PathLike[str], rank: Rank) -> None:
    """Write `rankN.pt`, whole or not at all."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f"rank{rank.rank}.pt.half"
    torch.save(asdict(rank), half)
    half.replace(folder / f"rank{rank.rank}.pt")


def read(directory: str | os.PathLike[str]) -> tuple[Rank, ...]:
    """All ranks that finished training, in order."""
    files = Path(directory).glob("rank*.pt")
    ranks = (Rank(**torch.load(file, weights_only=False)) for file in files)
    return tuple(sorted(ranks, key=lambda each: each.rank))
