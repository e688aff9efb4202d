"""Whether all ranks may have rows of the same kind in each step: then none waits for another.

A random sampler gives them different ones sooner or later. Rows in the order of the data set may be
sorted so that they never do, and a sampler of the user's own may see to it, as LLaVA's does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vlmguard_transformers import trainer as hf
from vlmguard_transformers.rows import columns, peek
from vlmguard_transformers.shared_rows import senses

_MAKERS = ("get_train_dataloader", "_get_train_sampler")
"""In the frameworks these draw rows at random, but where the arguments say otherwise."""


def may_be_alike(trainer: Any) -> bool:
    """False where rows come at random, or in an order that is known to part the ranks."""
    shuffled: bool | None = getattr(trainer, "shuffled", None)  # of a loop's loader
    if shuffled is not None:
        return not shuffled
    makers = [getattr(trainer, name, None) for name in _MAKERS]
    if not all(_known(maker) for maker in makers if maker is not None):
        return True
    args = trainer.args
    if getattr(args, "train_sampling_strategy", "random") != "sequential":
        return False
    config = getattr(args, "accelerator_config", None)
    if getattr(config, "split_batches", False) or getattr(config, "dispatch_batches", False):
        return True
    data = trainer.train_dataset
    kinds = columns.in_order(data) if columns.columns(data) else peek.in_order(trainer, data)
    drops = bool(getattr(args, "dataloader_drop_last", False))
    batch = args.per_device_train_batch_size
    return kinds is None or alike(kinds, args.world_size, batch, drops)


def alike(kinds: Sequence[str], world: int, batch: int, drops: bool) -> bool:
    """Whether the micro-batches that ranks have at a time need the same towers.

    Args:
        kinds: of the rows, in their order. As accelerate shards them: the first ``batch`` rows are
            rank 0's, the next rank 1's.
        drops: whether the rows of the last, incomplete step are dropped; else it is filled up from
            the first rows.
    """
    step = world * batch
    left = len(kinds) % step
    whole = list(kinds[: len(kinds) - left]) if drops else [*kinds, *kinds[: -len(kinds) % step]]
    for first in range(0, len(whole), step):
        parts = (whole[at : at + batch] for at in range(first, first + step, batch))
        if len({frozenset().union(*map(senses, part)) for part in parts}) > 1:
            return False
    return True


def _known(maker: Any) -> bool:
    root = str(getattr(maker, "__module__", "")).partition(".")[0]
    return root in hf.FRAMEWORKS or root.startswith("vlmguard")
