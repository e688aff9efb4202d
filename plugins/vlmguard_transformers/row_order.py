"""Whether all ranks may have rows of the same kind in each step: then none waits for another.

A random sampler gives them different ones sooner or later. Rows in the order of the data set may be
sorted so that they never do, and a sampler of the user's own may see to it, as LLaVA's does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vlmguard_transformers.rows import columns, peek
from vlmguard_transformers.shared_rows import senses

_KNOWN = frozenset(
    ("FlagEmbedding", "accelerate", "llamafactory", "swift", "torch", "transformers", "trl")
)
"""Packages whose samplers are random, or follow the order of the data set."""
_MAKERS = ("get_train_dataloader", "_get_train_sampler")


def may_be_alike(trainer: Any) -> bool:
    """Whether a sampler of the user's own decides which rows come together, or it is known that
    the data set's order gives all ranks the same kind of row at a time."""
    made_by = [getattr(type(trainer), name, None) for name in _MAKERS]
    sampler = getattr(trainer, "sampler", None)  # of a loop's loader
    if not all(map(_known, (*filter(None, made_by), *filter(None, [sampler])))):
        return True
    if not _in_order(trainer, sampler):
        return False
    data = trainer.train_dataset
    kinds = columns.in_order(data) if columns.columns(data) else peek.in_order(trainer, data)
    args = trainer.args
    batch = getattr(trainer, "batch_size", None) or args.per_device_train_batch_size
    return kinds is not None and alike(kinds, args.world_size, batch)


def alike(kinds: Sequence[str], world: int, batch: int) -> bool:
    """Whether the micro-batches that ranks have at a time need the same towers.

    Args:
        kinds: of the rows, in their order. As accelerate shards them: the first ``batch`` rows are
            rank 0's, the next rank 1's; the last rows are filled up from the first.
    """
    filled = [*kinds, *kinds[: -len(kinds) % (world * batch)]]
    for first in range(0, len(filled), world * batch):
        parts = (filled[at : at + batch] for at in range(first, first + world * batch, batch))
        if len({frozenset().union(*map(senses, part)) for part in parts}) > 1:
            return False
    return True


def _known(maker: Any) -> bool:
    name = getattr(maker, "__module__", None) or type(maker).__module__
    root = name.partition(".")[0]
    return root in _KNOWN or root.startswith("vlmguard")


def _in_order(trainer: Any, sampler: Any) -> bool:
    if sampler is not None:
        return type(sampler).__name__ == "SequentialSampler"
    asked = getattr(trainer.args, "train_sampling_strategy", None)  # since transformers 5
    config = getattr(trainer.args, "accelerator_config", None)
    shared = getattr(config, "split_batches", False) or getattr(config, "dispatch_batches", False)
    return asked == "sequential" and not shared
