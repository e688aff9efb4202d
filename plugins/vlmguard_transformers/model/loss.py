"""A run's loss, read before it trains: its scale, and the part that balances experts.

`times` asks whether a Trainer leaves a division to the model's loss that the model does not make.

A forward with ``**kwargs`` is taken for one that divides the sum of its tokens' losses by
``num_items_in_batch``, the number of them on all ranks and in all micro-batches of a step. So the
Trainer does not divide by the micro-batches, and multiplies by the ranks, whose gradients are then
averaged. A loss that is a mean already (Qwen2-Audio's) becomes that many times too large.
Read in transformers 4.49, 4.51, 4.57, 5.6, 5.19 and 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from vlmguard.core.facts import Phase, Tower
from vlmguard.runtime.faults import contain
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.model import observation

if TYPE_CHECKING:
    from vlmguard_torch.transaction import Transaction

FIRST = Version("4.49")
"""Before, a step without the flag was not divided by its micro-batches either."""
_FLAG = "model_accepts_loss_kwargs"
_LOGITS = "router_logits"
_COEFFICIENT = "router_aux_loss_coef"


def times(trainer: Any, phase: Phase, towers: tuple[Tower, ...]) -> int:
    """How many times too large each step's gradient will be; 1 where nothing says so. The model is
    observed only where an answer hangs on it."""
    if phase != "train" or not any(tower.sees for tower in towers):
        return 1
    wrong = contain("reading how the loss is scaled", _if_ignored, trainer) or 1
    if wrong < 2:
        return 1
    observed = observation.copy_of(trainer)
    return wrong if observed is not None and observed.counts_items is False else 1


def mend(trainer: Any, transaction: Transaction) -> None:
    """Have the Trainer take the model's loss for the mean that it is."""
    said = "the model's loss is taken for a mean, and averaged over ranks and micro-batches"
    transaction.set(trainer, _FLAG, False, said, "loss")


def _if_ignored(trainer: Any) -> int:
    """The same, should the model ignore the number of tokens."""
    args = trainer.args
    if not getattr(trainer, _FLAG, False) or not _takes_loss(trainer) or args.n_gpu > 1:
        return 1
    import transformers

    if Version(transformers.__version__) < FIRST:
        return 1
    ranks = 1
    if getattr(args, "average_tokens_across_devices", False):
        alike = getattr(trainer, "get_tp_size", lambda: 1)()  # tensor parallel ranks share rows
        ranks = trainer.accelerator.num_processes // alike
    return int(ranks * args.gradient_accumulation_steps)


def _takes_loss(trainer: Any) -> bool:
    """Whether it takes the model's own loss, and in the Trainer's own way."""
    others = (getattr(trainer, "compute_loss_func", None), getattr(trainer, "label_smoother", None))
    if any(other is not None for other in others):
        return False
    if getattr(trainer, "loss_is_scaled_for_ga", None) is not None:
        return False
    return hf.home(trainer, "compute_loss") == "transformers.trainer"


def of_routers(trainer: Any) -> bool:
    """Whether it has a part of router logits that transformers records while blocks run: asked for,
    with a coefficient, of a model whose class records them."""
    return bool(contain("reading the loss of the routers", _of_routers, trainer))


def _of_routers(trainer: Any) -> bool:
    return _asked(trainer) and any(
        _LOGITS in (getattr(type(module), "_can_record_outputs", None) or ())
        for module in trainer.model.modules()
    )


def _asked(trainer: Any) -> bool:
    """By the config, as transformers, LLaMA-Factory and TRL's SFT read it; by a trainer's own
    switch (TRL's and ms-swift's preference trainers); by ms-swift's flag."""
    if getattr(trainer.args, _COEFFICIENT, None):
        return True
    configs = list(_configs(trainer.model))
    weighs = any(getattr(config, _COEFFICIENT, 0) for config in configs)
    asked = any(getattr(config, "output_router_logits", False) for config in configs)
    return weighs and (asked or bool(getattr(trainer, "aux_loss_enabled", False)))


def _configs(model: Any) -> Iterator[Any]:
    config = getattr(model, "config", None)
    yield config
    text = getattr(config, "get_text_config", None)
    if text is not None:
        yield text()
