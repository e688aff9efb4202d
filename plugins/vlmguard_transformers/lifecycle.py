"""A trainer's life, from outside: judged and mended before anything wraps its model, watched while
it trains and evaluates, let go at the end. The wrappers of `SEAMS`, in the order of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vlmguard import guard
from vlmguard.core.facts import Phase
from vlmguard.core.runstate import RunState
from vlmguard.runtime.faults import contain
from vlmguard_torch import freezing
from vlmguard_transformers import apply, dry_run, phases, profiles, steps, translate

Args = tuple[Any, ...]
Options = dict[str, Any]

_inside: set[int] = set()
"""Trainers in one of our wrappers: frameworks' own ``train`` calls the one that it inherits."""


def train(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Judge and mend the run, train, explain what goes wrong."""
    return _guarded(wrapped, instance, args, kwargs, "train")


def evaluate(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Evaluation between training steps, or a run of its own."""
    state = guard.state_of(instance)
    if state is None:
        return _guarded(wrapped, instance, args, kwargs, "eval")
    before, state.phase = state.phase, "eval"
    try:
        return wrapped(*args, **kwargs)
    finally:
        state.phase = before


def _guarded(wrapped: Any, trainer: Any, args: Args, kwargs: Options, phase: Phase) -> Any:
    if id(trainer) in _inside:
        return wrapped(*args, **kwargs)
    _inside.add(id(trainer))
    state: RunState | None = None
    try:
        begun = contain("judging the run", begin, trainer, phase)
        state = begun if isinstance(begun, RunState) else None
        return wrapped(*args, **kwargs)
    except Exception as error:
        run = state.run if state is not None else None
        contain("explaining the failure", guard.on_error, run, None, error)
        raise
    finally:
        _inside.discard(id(trainer))
        contain("letting go of the run", guard.close, state)


def begin(trainer: Any, phase: Phase) -> RunState | None:
    """Judge and mend the run of a trainer whose model nothing wraps yet."""
    try:
        profile = profiles.of(trainer)
    except Exception:
        contain("telling the other ranks", guard.passed_by)
        raise
    state = guard.pre_wrap(
        lambda: translate.run(trainer, profile, phase),
        lambda plan: apply.apply(trainer, profile, plan),
        lambda: freezing.check(profile.model(trainer), profile.policy(), profile.parts(trainer)),
        owner=trainer,
        spell=profile.spell,
        speaks=profile.speaks,
    )
    if state is None or state.run is None or phase != "train":
        return state
    contain("the dry run", dry_run.rehearse, trainer, profile, state.run)
    contain("watching gradients", steps.start, trainer, profile, state)
    return state


def training_step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Watch which parameters this backward reaches."""
    state = guard.state_of(instance)
    if state is None:
        return wrapped(*args, **kwargs)
    inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
    contain("beginning a step", steps.before, instance, state, inputs)
    before, state.phase = state.phase, "train"
    try:
        loss = wrapped(*args, **kwargs)
    finally:
        state.phase = before
        contain("ending a step", steps.left, state)
    contain("judging gradients", steps.after, instance, state)
    contain("noting that a blank input held", steps.held, state)
    return loss


def engine_step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Judge the gradients before DeepSpeed's engine steps, at the end of a window."""
    contain("judging gradients", steps.at_engine, instance)
    return wrapped(*args, **kwargs)


def loader(phase: Phase) -> Callable[[Any, Any, Args, Options], Any]:
    """The wrapper around a trainer's maker of a data loader: its batches are of ``phase``."""

    def made(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
        found = wrapped(*args, **kwargs)
        contain("marking a data loader", phases.mark, found, phase)
        return found

    return made


eval_loader = loader("eval")
