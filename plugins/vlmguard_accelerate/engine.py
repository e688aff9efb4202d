"""A plain loop under DeepSpeed: judged and mended before the engine takes its model, watched at the
engine's steps. The engine is made by ``deepspeed.initialize``, which has read the config."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.runstate import RunState
from vlmguard.runtime.faults import contain
from vlmguard_accelerate import loop, plain_loop
from vlmguard_accelerate.standin import Deepspeed
from vlmguard_transformers.watch import first_steps

Args = tuple[Any, ...]
Options = dict[str, Any]


def taken(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Judge and mend the run of a plain loop whose model an engine is about to take."""
    state = contain("judging a loop", _begin, instance, kwargs)
    made = wrapped(*args, **kwargs)
    if state is not None:
        contain("watching gradients", _watch, state, instance)
        contain("listening to a loop's forwards", plain_loop.listen, state, instance)
    return made


def _begin(engine: Any, kwargs: Options) -> RunState | None:
    """The open state of a loop that trains towers. An engine without an optimizer trains nothing:
    it serves a reference or a reward model. A pipeline's engine has no forward of the model."""
    model, settings = kwargs.get("model"), kwargs.get("config_class")
    config = getattr(settings, "_param_dict", None)
    moves = kwargs.get("optimizer") or getattr(settings, "optimizer_name", None)
    if not moves or not isinstance(config, Mapping) or hasattr(type(engine), "train_batch"):
        return None
    if not loop.trains_towers(model) or not plain_loop.alone(model):
        return None
    dataset, rows = kwargs.get("training_data"), None
    if dataset is not None:
        collate = kwargs.get("collate_fn")
        rows = SimpleNamespace(dataset=dataset, collate_fn=collate, shuffled=True)  # by DeepSpeed
    many = getattr(settings, "gradient_accumulation_steps", None)
    return plain_loop.begin(Deepspeed(model, config, many or 1), model, rows)


def _watch(state: RunState, engine: Any) -> None:
    made = loop.loop_of(state)
    if made is not None and engine.optimizer is not None:
        made.accelerator.belongs(engine)
        runstate.bind(engine, state)
        first_steps.watch(made, state, engine.optimizer)


def backward(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Explain what a backward of a plain loop's engine raises."""
    try:
        return wrapped(*args, **kwargs)
    except Exception as error:
        contain("explaining the failure", _failed, instance, error)
        raise


def step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Sum up the first step, at the end of a window. What the gradients were is judged before it,
    as in a Trainer."""
    state = guard.state_of(instance)
    ends = state is not None and contain("knowing a window's end", _ends, instance)
    try:
        done = wrapped(*args, **kwargs)
    except Exception as error:
        contain("explaining the failure", _failed, instance, error)
        raise
    if ends:
        contain("judging gradients", plain_loop.judge, state)
    return done


def _ends(engine: Any) -> bool:
    return bool(engine.is_gradient_accumulation_boundary())


def _failed(engine: Any, error: Exception) -> None:
    state = runstate.of(engine)
    if state is not None:
        first_steps.failed(state, error)
        guard.on_error(state.run, None, error)
