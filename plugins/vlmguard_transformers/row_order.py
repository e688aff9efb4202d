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
    args, data = trainer.args, trainer.train_dataset
    config = getattr(args, "accelerator_config", None)
    if getattr(config, "split_batches", False) or getattr(config, "dispatch_batches", False):
        return True
    if _ranks_share_rows(trainer) or hasattr(data, "packed_idx"):
        return True
    if _is_a(trainer, "GRPOTrainer", "RLOOTrainer"):
        return _one_prompt(trainer)
    batch, drops = args.per_device_train_batch_size, _drops(args)
    if not _in_order(trainer):
        return _rare(columns.in_order(data) if columns.columns(data) else None, batch)
    split = alike_by_turns if _shards_by_turns(trainer) else alike
    return _alike(trainer, data, batch, drops, split)


def may_be_alike_in_evaluation(trainer: Any) -> bool:
    """As `may_be_alike`. Rows of an evaluation come in their order."""
    maker = getattr(trainer, "get_eval_dataloader", None)
    if maker is None or not _known(maker) or _ranks_share_rows(trainer):
        return True
    given = trainer.eval_dataset
    sets = list(given.values()) if isinstance(given, dict) else [given]
    split = alike_by_turns if _is_by_turns(maker) else alike
    batch, drops = trainer.args.per_device_eval_batch_size, _drops(trainer.args)
    return all(_alike(trainer, data, batch, drops, split) for data in sets if data is not None)


def evaluates(trainer: Any) -> bool:
    """Whether a training is to evaluate at times."""
    args = trainer.args
    asked = getattr(args, "eval_strategy", getattr(args, "evaluation_strategy", "no"))
    started = bool(getattr(args, "eval_on_start", False))
    return getattr(asked, "value", asked) != "no" or started


def _drops(args: Any) -> bool:
    return bool(getattr(args, "dataloader_drop_last", False))


def _alike(trainer: Any, data: Any, batch: int, drops: bool, split: Any) -> bool:
    kinds = columns.in_order(data) if columns.columns(data) else peek.in_order(trainer, data)
    return kinds is None or bool(split(kinds, trainer.args.world_size, batch, drops))


def _rare(kinds: Sequence[str] | None, batch: int) -> bool:
    """Whether so few rows lack something that no micro-batch can: rows at random then part no
    ranks."""
    each = list(map(senses, kinds or ()))
    lack = [sum(sense not in one for one in each) for sense in frozenset().union(*each)]
    return bool(lack) and all(number < batch for number in lack)


def _in_order(trainer: Any) -> bool:
    """Whether rows come in the order of the data set: a setting of transformers, of ms-swift, of
    LLaMA-Factory or of a trainer of TRL's, or what TRL's sampler for KTO and BCO does."""
    args, more = trainer.args, getattr(trainer, "finetuning_args", None)
    sampler = getattr(getattr(trainer, "_get_train_sampler", None), "__qualname__", "")
    return (
        getattr(args, "train_sampling_strategy", "random") == "sequential"
        or (_shards_by_turns(trainer) and not args.train_dataloader_shuffle)
        or bool(getattr(more, "disable_shuffling", False))
        or not getattr(trainer, "shuffle_dataset", True)
        or sampler.startswith(("KTOTrainer.", "BCOTrainer."))
    )


def _shards_by_turns(trainer: Any) -> bool:
    return _is_by_turns(getattr(trainer, "get_train_dataloader", None))


def _is_by_turns(maker: Any) -> bool:
    """Whether it is ms-swift's, which not all of its trainers have."""
    return str(getattr(maker, "__qualname__", "")).startswith("DataLoaderMixin.")


def _ranks_share_rows(trainer: Any) -> bool:
    """Whether several ranks have the same rows at a time: tensor, context or sequence parallel."""
    told = getattr(trainer.args, "parallelism_config", None)
    deepspeed = getattr(trainer.args, "deepspeed", None)
    sizes = [getattr(told, f"{name}_size", 1) for name in ("tp", "cp", "sp")]
    sizes.append(getattr(getattr(trainer, "template", None), "sequence_parallel_size", 1))
    if isinstance(deepspeed, dict):
        sizes.append(deepspeed.get("tensor_parallel", {}).get("autotp_size", 1))
    return any(isinstance(size, int) and size > 1 for size in sizes)


def _is_a(trainer: Any, *names: str) -> bool:
    return any(kind.__name__ in names for kind in type(trainer).__mro__)


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
