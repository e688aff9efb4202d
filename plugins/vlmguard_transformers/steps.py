"""The gradient watch of a trainer, from before wrap to the end of training.

Two seams for every framework on Hugging Face's Trainer: an adapter lists `SEAMS`, starts the watch
when the run is known and ends it when training ends. The gradients are judged before the optimizer
steps: under DDP after ``training_step``, under DeepSpeed, whose step sits inside backward, at the
engine's own ``step``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vlmguard import guard
from vlmguard.core.facts import Run
from vlmguard.runtime.faults import contain
from vlmguard.runtime.seams import Seam

# FSDP puts other parameters in place of the model's: hooks on those would never be called.
_HOOKED = ("single", "ddp", "zero1", "zero2", "zero3")


@dataclass
class _Watched:
    """A trainer while it trains.

    Attributes:
        stepping: whether it is inside ``training_step``.
        judged: whether this window's gradients were judged already.
    """

    run: Run
    watch: Any
    stepping: bool = False
    judged: bool = False


_watched: dict[int, _Watched] = {}  # id(trainer) →


def start(trainer: Any, run: Run, watch: Any) -> None:
    """Watch the gradients of ``trainer`` where the strategy lets hooks see them."""
    if run.strategy in _HOOKED:
        _watched[id(trainer)] = _Watched(run, watch)


def end(trainer: Any) -> None:
    """Let go of a trainer."""
    found = _watched.pop(id(trainer), None)
    if found is not None:
        found.watch.close()


def step(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Watch which parameters this backward reaches."""
    found = _watched.get(id(instance))
    if found is None:
        return wrapped(*args, **kwargs)
    inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
    contain("watching gradients", _before, found, inputs)
    try:
        loss = wrapped(*args, **kwargs)
    finally:
        found.stepping = False
    contain("judging gradients", _after, instance, found)
    return loss


def engine_step(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Judge the gradients before DeepSpeed's engine steps, at the end of a window."""
    contain("judging gradients", _at_engine, instance)
    return wrapped(*args, **kwargs)


def _before(found: _Watched, inputs: Any) -> None:
    from vlmguard_transformers.gradients import kinds_of

    found.stepping, found.judged = True, False
    found.watch.before(kinds_of(inputs))


def _at_engine(engine: Any) -> None:
    found = next((each for each in _watched.values() if each.stepping), None)
    if found is not None and engine.is_gradient_accumulation_boundary():
        _judge(found)


def _after(trainer: Any, found: _Watched) -> None:
    guard.first_step()
    # Else the window is not over.
    if getattr(trainer.accelerator, "sync_gradients", True) and not found.judged:
        _judge(found)


def _judge(found: _Watched) -> None:
    found.judged = True
    gradients = found.watch.after()
    if gradients is not None:
        guard.pre_step(found.run, gradients=gradients)


SEAMS = (
    Seam(
        "step",
        ("transformers.trainer:Trainer.training_step",),
        step,
        "sees which parameters got a gradient",
    ),
    Seam(
        "engine",
        ("deepspeed.runtime.engine:DeepSpeedEngine.step",),
        engine_step,
        "judges gradients before DeepSpeed steps",
    ),
)
