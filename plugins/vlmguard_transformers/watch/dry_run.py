"""The dry run of a Hugging Face trainer: rows that it will train on, tried before anything wraps
the model.

Every rank tries its own rows and reports them; nothing is gathered, so that a rank whose dry run
fails leaves nobody waiting.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from vlmguard import guard
from vlmguard.core.errors import Stop
from vlmguard.core.runstate import RunState
from vlmguard.runtime import report
from vlmguard_torch.observe.reached import NOT_KEPT, untouched
from vlmguard_torch.watch import dry_run
from vlmguard_transformers.model_reading import Reading

_LARGE = 500_000_000
"""Parameters beyond which a backward on the CPU is no matter of seconds. DeepSpeed moves a model to
its device only when it wraps it: until then a 7B model lies on the CPU."""


def rehearse(read: Reading, state: RunState) -> None:
    """Make the dry run; say what came of it, or why there was none.

    Raises `Stop` where a rule finds that going on would be wrong.
    """
    trainer, profile, model = read.trainer, read.profile, read.trainer.model
    try:
        if why := profile.dry_run_obstacle(trainer) or _too_large(trainer):
            raise dry_run.CannotTry(why)
        batch = _batch(trainer)
        if not isinstance(batch, Mapping):
            raise dry_run.CannotTry("this trainer makes its batches while it trains")
        with profile.around_forward(trainer), trainer.compute_loss_context_manager():
            tried = dry_run.run(model, batch, read.towers, profile.loss, profile.model(trainer))
    except dry_run.CannotTry as error:
        report.line(f"dry step [{report.who()}]: not made: {error}")
        return
    guard.pre_step(state, gradients=dry_run.say(tried, read.never_used, state))


def _too_large(trainer: Any) -> str:
    parameters = list(trainer.model.parameters())
    size = sum(parameter.numel() for parameter in parameters)
    devices = {parameter.device.type for parameter in parameters}
    if size <= _LARGE or devices != {"cpu"} or trainer.args.device.type == "cpu":
        return ""
    return f"the model ({size / 1e9:.1f} billion parameters) is still on the CPU"


def _batch(trainer: Any) -> Any:
    """One micro-batch as the trainer's loader would make it; neither the data set nor its sampler
    notices."""
    data = copy.copy(trainer.train_dataset)
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise dry_run.CannotTry("a streamed data set has no batch beforehand")
    args = trainer.args
    size = args.per_device_train_batch_size
    first = args.process_index * size
    try:
        held = (trainer.data_collator, trainer.train_dataset)
        with untouched(trainer.model, held) as can_be:
            if not can_be:
                raise dry_run.CannotTry(NOT_KEPT)
            rows = [data[number % len(data)] for number in range(first, first + size)]
            return trainer.data_collator(rows)
    except Exception as error:
        if isinstance(error, Stop | dry_run.CannotTry):
            raise
        raise dry_run.CannotTry(f"no batch: {type(error).__name__}: {error}") from error
