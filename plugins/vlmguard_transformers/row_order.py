"""Whether all ranks may have rows of the same kind in each step: then none waits for another.

A random sampler gives them different ones sooner or later. Rows in the order of the data set may be
sorted so that they never do, and a sampler of the user's own may see to it, as LLaVA's does. In
GRPO all ranks may answer one prompt at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    if getattr(args, "num_generations", None):
        return _one_prompt(trainer)
    if not _in_order(trainer):
        return False
    config = getattr(args, "accelerator_config", None)
    if getattr(config, "split_batches", False) or getattr(config, "dispatch_batches", False):
        return True
    data = trainer.train_dataset
    kinds = columns.in_order(data) if columns.columns(data) else peek.in_order(trainer, data)
    drops = bool(getattr(args, "dataloader_drop_last", False))
    batch = args.per_device_train_batch_size
    if kinds is None:
        return True
    split = alike_by_turns if hasattr(args, "train_dataloader_shuffle") else alike
    return split(kinds, args.world_size, batch, drops)


def _in_order(trainer: Any) -> bool:
    """Whether rows come in the order of the data set: a setting of transformers, of ms-swift or of
    LLaMA-Factory."""
    args, more = trainer.args, getattr(trainer, "finetuning_args", None)
    return (
        getattr(args, "train_sampling_strategy", "random") == "sequential"
        or not getattr(args, "train_dataloader_shuffle", True)
        or bool(getattr(more, "disable_shuffling", False))
    )


def _one_prompt(trainer: Any) -> bool:
    """GRPO: whether what all ranks generate at a time may answer one prompt, or the prompts come in
    the order of the data set."""
    args = trainer.args
    whole = args.per_device_train_batch_size * args.world_size
    whole = getattr(args, "generation_batch_size", None) or whole
    return bool(args.num_generations >= whole) or not getattr(trainer, "shuffle_dataset", True)


def alike_by_turns(kinds: Sequence[str], world: int, batch: int, drops: bool) -> bool:
    """As `alike`, as ms-swift shards rows: they go to the ranks by turns, and those that are left
    over are dropped. ``drops``: whether an incomplete last micro-batch is dropped as well."""
    each = len(kinds) // world
    each -= each % batch if drops else 0
    for first in range(0, each, batch):
        rows = range(first, min(first + batch, each))
        parts = ([kinds[row * world + rank] for row in rows] for rank in range(world))
        if _differ(parts):
            return False
    return True


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
        if _differ(whole[at : at + batch] for at in range(first, first + step, batch)):
            return False
    return True


def _differ(parts: Iterable[Sequence[str]]) -> bool:
    return len({frozenset().union(*map(senses, part)) for part in parts}) > 1


def _known(maker: Any) -> bool:
    root = str(getattr(maker, "__module__", "")).partition(".")[0]
    return root in hf.FRAMEWORKS or root.startswith("vlmguard")
