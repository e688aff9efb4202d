"""Loaders that a user's own script makes: rows in their order, in this process."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from vlmguard_transformers.rehearsal import chosen_rows

_PROCESSES = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "timeout",
              "multiprocessing_context", "worker_init_fn")  # fmt: skip


def in_order() -> None:
    """From now on, in this process."""
    from torch.utils import data

    begin = data.DataLoader.__init__
    signature = inspect.signature(begin)

    @functools.wraps(begin)
    def begun(self: Any, *args: Any, **named: Any) -> None:
        given = signature.bind(self, *args, **named).arguments
        kept = {name: value for name, value in given.items() if name not in ("self", *_PROCESSES)}
        if kept.get("shuffle"):
            kept["shuffle"] = False
        sampler = kept.get("sampler")
        if isinstance(sampler, data.RandomSampler):
            kept["sampler"] = data.SequentialSampler(sampler.data_source)
        elif isinstance(sampler, data.DistributedSampler) and kept.get("batch_size"):
            kept["sampler"] = dealt(sampler, kept["batch_size"])
        begin(self, **kept)
        self.collate_fn = chosen_rows.of_the_rows_alone(self.collate_fn)

    data.DataLoader.__init__ = begun


def is_dealt(loader: Any) -> bool:
    """Whether `dealt` gives each rank its rows."""
    return type(loader.sampler).__name__ == "Dealt"


def dealt(sampler: Any, batch: int) -> Any:
    """Each rank's rows as accelerate deals them: a batch is of rows that follow each other."""
    from torch.utils.data import Sampler

    class Dealt(Sampler):  # type: ignore[type-arg]
        """Has what the script's own sampler has, but for the order."""

        def __iter__(self) -> Iterator[int]:
            whole = batch * sampler.num_replicas
            for start in range(sampler.rank * batch, len(sampler.dataset), whole):
                yield from range(start, min(start + batch, len(sampler.dataset)))

        def __len__(self) -> int:
            return sum(1 for _ in self)

        def __getattr__(self, name: str) -> Any:
            return getattr(sampler, name)

    return Dealt()
