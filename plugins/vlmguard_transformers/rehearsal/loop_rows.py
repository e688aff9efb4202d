"""The rows of a user's own loop: which of its loaders trains, who deals its rows to the ranks, and
a choice of them in a set order."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from vlmguard_torch.media.kinds import kinds_of
from vlmguard_transformers.rehearsal import chosen_rows, on_cpu

BY_SAMPLER, BY_BATCH, ITSELF = "sampler", "batch", "itself"
"""Who deals rows to ranks: a `DistributedSampler`, accelerate by batches, or the script itself."""


class Loaders:
    """Every ``DataLoader`` that the script makes, in their order.

    Attributes:
        spec: of it ``loader``, which one trains, and ``places``, the rows that it gets.
        looks: whether nothing is chosen yet.
        last: the one whose batches came last.
    """

    def __init__(self, spec: Mapping[str, Any], looks: bool) -> None:
        self.spec, self.looks = spec, looks
        self.every: list[Any] = []
        self.last: Any = None

    def watch(self) -> None:
        """From now on, in this process."""
        from torch.utils.data import DataLoader

        own, rows = DataLoader.__init__, DataLoader.__iter__
        signature = inspect.signature(own)

        @functools.wraps(own)
        def made(loader: Any, *args: Any, **named: Any) -> None:
            given = dict(signature.bind(loader, *args, **named).arguments)
            del given["self"]
            given = on_cpu.loader_arguments(given)
            if not type(loader).__module__.startswith("accelerate"):
                self.every.append(loader)
                if not self.looks and len(self.every) - 1 == self.spec["loader"]:
                    given = self._chosen(given)
            own(loader, **given)

        @functools.wraps(rows)
        def begun(loader: Any) -> Any:
            self.last = loader
            return rows(loader)

        DataLoader.__init__ = made  # type: ignore[method-assign]
        DataLoader.__iter__ = begun  # type: ignore[method-assign]

    def _chosen(self, given: dict[str, Any]) -> dict[str, Any]:
        places, rows = self.spec["places"], given["dataset"]
        if not places or max(places) >= len(rows):
            return given
        given = {**given, "dataset": chosen_rows.chosen(rows, places), "shuffle": None}
        sampler = given.pop("sampler", None)
        if dealer(sampler) == BY_SAMPLER:
            type(sampler).__init__(sampler, given["dataset"], num_replicas=sampler.num_replicas,
                                   rank=sampler.rank, shuffle=False)  # fmt: skip
            given["sampler"] = sampler
        return given

    def facts(self, trains: Any, batch: Mapping[str, Any], by_batch: bool) -> dict[str, Any]:
        """What is known of the rows, as plain data.

        Args:
            trains: the loader of the last batch; None if there was none.
            batch: what the model got of it.
            by_batch: whether a loader that every rank has is dealt batch by batch.
        """
        loader = next((each for each in self.every if trains is not None
                       and each.dataset is trains.dataset), None)  # fmt: skip
        dealt, size = ITSELF, (loader.batch_size if loader is not None else None) or 0
        if size:
            dealt = dealer(loader.sampler) or (BY_BATCH if by_batch and _plain(loader) else ITSELF)
        if dealt == ITSELF:
            kind = "+".join(kinds_of(batch)) or "text"
            return {"rows": [{"place": 0, "kind": kind}], "count": 0, "batch": max(size, 1),
                    "loader": None, "dealt": dealt}  # fmt: skip
        rows, total = chosen_rows.kinds(loader.dataset, loader.collate_fn, True)
        return {"rows": rows, "count": total, "batch": size, "dealt": dealt,
                "loader": self.every.index(loader)}  # fmt: skip


def _plain(loader: Any) -> bool:
    from torch.utils.data import RandomSampler, SequentialSampler

    return type(loader.sampler) in (RandomSampler, SequentialSampler)


def dealer(sampler: Any) -> str:
    """`BY_SAMPLER` for torch's own; "" for any other."""
    from torch.utils.data import DistributedSampler

    return BY_SAMPLER if type(sampler) is DistributedSampler else ""
