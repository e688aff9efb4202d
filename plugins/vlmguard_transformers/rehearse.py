"""The dry step of a Hugging Face trainer: rows that it will train on, tried before anything wraps
the model.

Every rank tries its own rows and reports them; nothing is gathered, so that a rank whose dry step
fails leaves nobody waiting.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from vlmguard import guard
from vlmguard.core import settings
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Run
from vlmguard.runtime import report
from vlmguard_transformers import dry_step
from vlmguard_transformers.gradients import kinds_of


def rehearse(
    trainer: Any,
    run: Run,
    paths: Mapping[str, tuple[str, ...]],
    *,
    names: Any = None,
    untrained: tuple[str, ...] = (),
    hindrance: str = "",
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    loss: dry_step.Loss = dry_step.loss_of,
) -> None:
    """Make the dry step if the settings ask for one; say what came of it, or why there was none.

    Args:
        paths: tower kind → module paths.
        names: what names the model's parameters, if not the model itself.
        untrained: parts of names that this model family never trains.
        hindrance: why this trainer's step cannot be tried by one rank alone.
        around: a context that the framework's own training would set up around a forward.
        loss: (model, batch) → scalar tensor.

    Raises `Stop` where a rule finds that going on would be wrong.
    """
    if not settings.get().dry_step:
        return
    model = trainer.model
    try:
        if hindrance:
            raise dry_step.CannotTry(hindrance)
        with dry_step.random_kept(model):
            batch = _batch(trainer)
        if not isinstance(batch, Mapping):
            raise dry_step.CannotTry("this trainer makes its batches while it trains")
        with around(), trainer.compute_loss_context_manager():
            towers = dry_step.run(model, batch, paths, loss, names)
    except dry_step.CannotTry as error:
        report.line(f"dry step [{report.who()}]: not made: {error}")
        return
    guard.pre_step(run, gradients=dry_step.say(towers, kinds_of(batch), untrained))


def _batch(trainer: Any) -> Any:
    """One micro-batch as the trainer's loader would make it; neither the data set nor its sampler
    notices."""
    data = copy.copy(trainer.train_dataset)
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise dry_step.CannotTry("a streamed data set has no batch beforehand")
    args = trainer.args
    size = args.per_device_train_batch_size
    first = args.process_index * size
    try:
        rows = [data[number % len(data)] for number in range(first, first + size)]
        return trainer.data_collator(rows)
    except Exception as error:
        if isinstance(error, Stop):
            raise
        raise dry_step.CannotTry(f"no batch: {type(error).__name__}: {error}") from error
