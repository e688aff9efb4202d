"""The rows of a user's own loop: which of its loaders trains, who deals its rows to the ranks, and
a choice of them in a set order."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from vlmguard_torch.media.kinds import kinds_of
from vlmguard_transformers.rehearsal import chosen_rows, loaders


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

        @functools.wraps(own)
        def made(loader: Any, dataset: Any, *args: Any, **named: Any) -> None:
            if not type(loader).__module__.startswith("accelerate"):
                self.every.append(loader)
                if not self.looks and len(self.every) - 1 == self.spec["loader"]:
                    dataset = self._chosen(dataset, named.get("sampler"))
            own(loader, dataset, *args, **named)

        @functools.wraps(rows)
        def begun(loader: Any) -> Any:
            self.last = loader
            return rows(loader)

        DataLoader.__init__ = made  # type: ignore[method-assign]
        DataLoader.__iter__ = begun  # type: ignore[method-assign]

    def _chosen(self, rows: Any, sampler: Any) -> Any:
        places = self.spec["places"]
        if not places or max(places) >= len(rows):
            return rows
        found = chosen_rows.chosen(rows, places)
        if sampler is not None:  # they ask it for its rows
            for name in ("dataset", "data_source"):
                if hasattr(sampler, name):
                    setattr(sampler, name, found)
        return found

    def facts(self, trains: Any, batch: Mapping[str, Any], by_batch: bool) -> dict[str, Any]:
        """What is known of the rows, as plain data; no "loader" if the script deals them itself.

        Args:
            trains: the loader of the last batch; None if there was none.
            batch: what the model got of it.
            by_batch: whether a loader that every rank has is dealt batch by batch.
        """
        loader = next((each for each in self.every if trains is not None
                       and each.dataset is trains.dataset), None)  # fmt: skip
        size = (loader.batch_size if loader is not None else None) or 0
        if not size or not (loaders.is_dealt(loader) or (by_batch and _plain(loader))):
            kind = "+".join(kinds_of(batch)) or "text"
            return {"rows": [{"place": 0, "kind": kind}], "count": 0, "batch": max(size, 1),
                    "loader": None}  # fmt: skip
        rows, total = chosen_rows.kinds(loader.dataset, loader.collate_fn, True)
        return {"rows": rows, "count": total, "batch": size, "loader": self.every.index(loader)}


def _plain(loader: Any) -> bool:
    from torch.utils.data import RandomSampler, SequentialSampler

    return type(loader.sampler) in (RandomSampler, SequentialSampler)
