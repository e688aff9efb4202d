"""Whether all ranks may have rows of the same kind in each step: then none waits for another.

A random sampler gives them different ones sooner or later. Rows in the order of the data set may be
sorted so that they never do, and a sampler of the user's own may see to it, as LLaVA's does. In
GRPO all ranks may answer one prompt at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from vlmguard_transformers import trainer as hf
from vlmguard_transformers.data import columns, peek
from vlmguard_transformers.shared_rows import senses

_MAKERS = ("get_train_dataloader", "_get_train_sampler")
"""In the frameworks these draw rows at random, but where the arguments say otherwise."""


def may_be_alike(trainer: Any) -> bool:
    """False where rows come at random, or in an order that is known to part the ranks."""
    shuffled: bool | None = getattr(trainer, "shuffled", None)  # a plain loop's loader has it
    if shuffled is not None:
        return not shuffled
    makers = [getattr(trainer, name, None) for name in _MAKERS]
    if not all(_known(maker) for maker in makers if maker is not None):
        return True
    args, data = trainer.args, trainer.train_dataset
    if _hands_out(trainer) or hasattr(data, "packed_idx"):
        return True
    if _answers(trainer):
        return _one_prompt(trainer)
    if not _in_order(trainer):
        return _rare(trainer, data)
    batch, drops = args.per_device_train_batch_size, _drops(args)
    split = alike_by_turns if _shards_by_turns(trainer) else alike
    return _alike(trainer, data, batch, drops, split)


def may_be_alike_in_evaluation(trainer: Any) -> bool:
    """As `may_be_alike`. transformers' own sampler hands an evaluation's rows out in order."""
    args, sampler = trainer.args, getattr(trainer, "_get_eval_sampler", None)
    maker = getattr(trainer, "get_eval_dataloader", None)
    own = getattr(sampler, "__module__", "") == "transformers.trainer"
    grouped = getattr(args, "train_sampling_strategy", "") == "group_by_length"
    if maker is None or not _known(maker) or not own or _hands_out(trainer):
        return True
    if grouped or getattr(args, "group_by_length", False):
        return True
    given = trainer.eval_dataset
    sets = list(given.values()) if isinstance(given, dict) else [given]
    batch, drops = args.per_device_eval_batch_size, _drops(args)
    return all(_alike(trainer, data, batch, drops, alike) for data in sets if data is not None)


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


def _rare(trainer: Any, data: Any) -> bool:
    """Whether so few rows lack something, or have it, that hardly a micro-batch of the run does:
    rows at random then part no ranks. Of rows that cannot be counted, some are looked at."""
    args = trainer.args
    counted = columns.in_order(data) if columns.columns(data) else None
    each = list(map(senses, counted or peek.some(trainer, data) or ()))
    if not each:
        return False
    batch = args.per_device_train_batch_size
    steps = args.max_steps * args.gradient_accumulation_steps * args.world_size
    micros = steps if steps > 0 else args.num_train_epochs * len(data) / batch
    lack = [sum(sense not in one for one in each) for sense in frozenset().union(*each)]
    chance = [
        math.comb(few, batch) / math.comb(max(len(each), batch), batch)
        if counted
        else (max(few, 1) / len(each)) ** batch
        for few in lack
    ]
    return bool(chance) and max(min(one, 1 - one) for one in chance) * micros < 1


def _in_order(trainer: Any) -> bool:
    """Whether rows come in the order of the data set: a setting of transformers, of ms-swift, of
    LLaMA-Factory or of a trainer of TRL's, or what TRL's sampler for KTO and BCO does."""
    args, more = trainer.args, getattr(trainer, "finetuning_args", None)
    return (
        getattr(args, "train_sampling_strategy", "random") == "sequential"
        or (_shards_by_turns(trainer) and not args.train_dataloader_shuffle)
        or bool(getattr(more, "disable_shuffling", False))
        or not getattr(args, "train_sampler_random", True)  # of ms-swift 3.2
        or not getattr(trainer, "shuffle_dataset", True)
        or _sampler_of(trainer) in ("KTOTrainer", "BCOTrainer")
    )


def _sampler_of(trainer: Any) -> str:
    """The class that makes the sampler, of TRL's. ms-swift's mix-ins pass it on."""
    for kind in type(trainer).__mro__:
        if "_get_train_sampler" in vars(kind) and not kind.__module__.startswith("swift."):
            return kind.__name__ if kind.__module__.startswith("trl.") else ""
    return ""


def _shards_by_turns(trainer: Any) -> bool:
    """Whether ms-swift's own loader does, which not all of its trainers have."""
    return _is_a(trainer, "DataLoaderMixin")


def _hands_out(trainer: Any) -> bool:
    """Whether several ranks may be given the same rows, or one rank hands out the batches of
    all."""
    config = getattr(trainer.args, "accelerator_config", None)
    told = (getattr(config, name, False) for name in ("split_batches", "dispatch_batches"))
    return any(told) or shares_rows(trainer)


def shares_rows(trainer: Any) -> bool:
    """Whether several ranks have the same rows at a time: tensor, context or sequence parallel."""
    args, accelerator = (getattr(trainer, name, None) for name in ("args", "accelerator"))
    sizes = [
        getattr(told, f"{name}_size", 1)
        for told in (getattr(each, "parallelism_config", None) for each in (args, accelerator))
        for name in ("tp", "cp", "sp")
    ]
    sizes.append(getattr(getattr(trainer, "template", None), "sequence_parallel_size", 1))
    sizes.append(getattr(getattr(trainer, "model", None), "tp_size", 1))
    plugin = getattr(getattr(accelerator, "state", None), "deepspeed_plugin", None)
    for deepspeed in (getattr(args, "deepspeed", None), getattr(plugin, "deepspeed_config", None)):
        if isinstance(deepspeed, dict):
            sizes.append((deepspeed.get("tensor_parallel") or {}).get("autotp_size", 1))
    return any(isinstance(size, int) and size > 1 for size in sizes)


def _answers(trainer: Any) -> bool:
    """Whether it trains on several answers to a prompt, as GRPO does."""
    several = getattr(trainer, "num_generations", 0)
    return _is_a(trainer, "GRPOTrainer", "RLOOTrainer") or (
        isinstance(several, int) and several > 1
    )


def _is_a(trainer: Any, *names: str) -> bool:
    return any(kind.__name__ in names for kind in type(trainer).__mro__)


def _one_prompt(trainer: Any) -> bool:
    """GRPO: whether what all ranks generate at a time may answer one prompt, or the prompts come in
    the order of the data set."""
    args = trainer.args
    whole = args.per_device_train_batch_size * args.world_size
    whole = getattr(args, "generation_batch_size", None) or whole
    several = getattr(args, "num_generations", None) or getattr(trainer, "num_generations", 1)
    return bool(several >= whole) or not getattr(trainer, "shuffle_dataset", True)


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
