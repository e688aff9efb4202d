"""The gradient watch of a trainer, from before wrap to the end of training.

One seam for every framework on Hugging Face's Trainer: an adapter lists `SEAM`, starts the watch
when the run is known and ends it when training ends.
"""

from __future__ import annotations

from typing import Any

from vlmguard import guard
from vlmguard.facts import Run
from vlmguard.faults import contain
from vlmguard.seams import Seam

# FSDP puts other parameters in place of the model's: hooks on those would never be called.
_HOOKED = ("single", "ddp", "zero1", "zero2", "zero3")
_watched: dict[int, tuple[Run, Any]] = {}  # id(trainer) → its run and watch, while it trains


def start(trainer: Any, run: Run, watch: Any) -> None:
    """Watch the gradients of ``trainer`` where the strategy lets hooks see them."""
    if run.strategy in _HOOKED:
        _watched[id(trainer)] = (run, watch)


def end(trainer: Any) -> None:
    """Let go of a trainer."""
    _, watch = _watched.pop(id(trainer), (None, None))
    if watch is not None:
        watch.close()


def step(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Watch which parameters this backward reaches."""
    found = _watched.get(id(instance))
    if found is None:
        return wrapped(*args, **kwargs)
    inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
    contain("watching gradients", _before, found[1], inputs)
    loss = wrapped(*args, **kwargs)
    contain("judging gradients", _after, instance, *found)
    return loss


def _before(watch: Any, inputs: Any) -> None:
    from vlmguard_transformers.gradients import kinds_of

    watch.before(kinds_of(inputs))


def _after(trainer: Any, run: Run, watch: Any) -> None:
    guard.first_step()
    if not getattr(trainer.accelerator, "sync_gradients", True):
        return  # the window is not over
    gradients = watch.after()
    if gradients is not None:
        guard.pre_step(run, gradients=gradients)


SEAM = Seam(
    "step",
    ("transformers.trainer:Trainer.training_step",),
    step,
    "sees which parameters got a gradient",
)
