"""A trainer's life, from outside: judged and mended before anything wraps its model, watched while
it trains and evaluates, let go at the end. The wrappers of `SEAMS`, in the order of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.facts import Phase
from vlmguard.core.runstate import RunState
from vlmguard.runtime import seams
from vlmguard.runtime.faults import contain
from vlmguard.runtime.seams import Seam
from vlmguard_transformers import accelerators, profiles, translate
from vlmguard_transformers.data import batches
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.profile import Profile
from vlmguard_transformers.watch import first_steps

Args = tuple[Any, ...]
Options = dict[str, Any]


@dataclass(eq=False)
class Life:
    """A trainer in one of our wrappers.

    Attributes:
        model: of which the run was judged, whether or not it could be.
        state: of the open run.
    """

    phase: Phase
    model: Any = None
    state: RunState | None = None

    def take_up(self, trainer: Any) -> None:
        """Judge the run of the model that the trainer has now, in the place of an earlier one's."""
        contain("letting go of the run", guard.close, self.state)
        self.model, self.state = getattr(trainer, "model", None), None
        self.state = begin(trainer, self.phase)


_lives: dict[int, Life] = {}
"""Trainers in one of our wrappers: frameworks' own ``train`` calls the one that it inherits."""
_SERIAL, _DEPTH = "entered", "depth"


def train(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Judge and mend the run, train, explain what goes wrong."""
    return _guarded(wrapped, instance, args, kwargs, "train")


def inner(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """The model that trains is there by now: ``train`` has called ``model_init``, a search has set
    its trial up. Nothing wraps it yet."""
    contain("judging the run", _settle, instance)
    return wrapped(*args, **kwargs)


def _settle(trainer: Any) -> None:
    life = _lives.get(id(trainer))
    if life is None:
        return
    accelerators.note(trainer)
    if life.model is not trainer.model:
        life.take_up(trainer)


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
    if id(trainer) in _lives:
        return wrapped(*args, **kwargs)
    life = _lives[id(trainer)] = Life(phase)
    try:
        if phase != "train" or not contain("reading a trainer", _comes_later, trainer):
            contain("judging the run", life.take_up, trainer)
        return wrapped(*args, **kwargs)
    except Exception as error:
        run = life.state.run if life.state is not None else None
        contain("taking back what did not hold", first_steps.failed, life.state, error)
        contain("explaining the failure", guard.on_error, run, None, error)
        raise
    finally:
        _lives.pop(id(trainer), None)
        contain("letting go of the run", guard.close, life.state)


def _comes_later(trainer: Any) -> bool:
    """Whether ``train`` makes the model that it trains."""
    return getattr(trainer, "model_init", None) is not None


def begin(trainer: Any, phase: Phase) -> RunState | None:
    """Judge and mend the run of a trainer whose model nothing wraps yet."""
    accelerators.note(trainer)
    try:
        profile = profiles.of(trainer)
    except Exception:
        contain("telling the other ranks", guard.announce_skip)
        raise
    read = Reading(trainer, profile, phase)
    state = translate.judge(read)
    if state is None or state.run is None:
        return state
    runstate.bind(trainer.model, state)
    for each in contain("finding a run's owners", profile.owners, trainer) or ():
        runstate.bind(each, state)
    contain("watching a trainer's own steps", _own_steps, trainer, profile, state)
    if phase == "train":
        if state.settings.dry_step:
            contain("the dry run", _rehearse, read, state)
        contain("watching gradients", first_steps.start, read, state)
    return state


def _rehearse(read: Reading, state: RunState) -> None:
    """Imported where it is asked for."""
    from vlmguard_transformers.watch import dry_run

    dry_run.rehearse(read, state)


_OWN = (
    Seam("own step", (), f"{__name__}:training_step", "sees steps of a trainer's own", rests=True),
    Seam("own prediction", (), f"{__name__}:prediction_step", "the same of its evaluation"),
)


def _own_steps(trainer: Any, profile: Profile, state: RunState) -> None:
    """A step that a subclass overrides need not call the one that it inherits."""
    state.kept[batches.HEARS] = not profile.hears_batches
    for seam in _OWN:
        name = str(seam.wrapper).partition(":")[2]
        state.at_close(seams.over(type(trainer), name, seam))


def training_step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Hear the batch, watch which parameters this backward reaches. Of a step that calls the one
    that it inherits, the outer one begins and the inner one is judged."""
    state = guard.state_of(instance)
    if state is None or contain("beginning a step", _settled, instance, state):
        return wrapped(*args, **kwargs)
    kept = state.kept
    number = kept[_SERIAL] = kept.get(_SERIAL, 0) + 1
    outer = not kept.get(_DEPTH)
    kept[_DEPTH] = kept.get(_DEPTH, 0) + 1
    before, state.phase = state.phase, "train"
    try:
        if outer:
            inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
            contain("judging the batch", batches.hear, state, inputs)
            contain("beginning a step", first_steps.before, instance, state)
        loss = wrapped(*args, **kwargs)
    finally:
        kept[_DEPTH] -= 1
        state.phase = before
    if kept[_SERIAL] == number:  # no inner call has judged it
        contain("judging gradients", first_steps.after, instance, state)
        contain("noting that a blank input held", first_steps.confirmed, state)
        contain("letting later steps alone", first_steps.settle, state)
    return loss


def _settled(trainer: Any, state: RunState) -> bool:
    return first_steps.settled(state, (getattr(trainer, "optimizer", None),))


def prediction_step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Hear a batch of evaluation."""
    state = guard.state_of(instance)
    if state is None or state.kept.get(_DEPTH):
        return wrapped(*args, **kwargs)
    state.kept[_DEPTH] = 1
    before = state.phase
    state.phase = "eval" if before == "train" else before
    try:
        inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
        contain("judging the batch", batches.hear, state, inputs)
        return wrapped(*args, **kwargs)
    finally:
        state.kept[_DEPTH] = 0
        state.phase = before


def engine_step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Judge the gradients before DeepSpeed's engine steps, at the end of a window."""
    contain("judging gradients", first_steps.at_engine, instance)
    return wrapped(*args, **kwargs)


def loader(phase: Phase) -> Callable[[Any, Any, Args, Options], Any]:
    """The wrapper around a trainer's maker of a data loader: its batches are of ``phase``."""

    def made(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
        found = wrapped(*args, **kwargs)
        contain("marking a data loader", _mark, instance, found, phase)
        return found

    return made


def _mark(trainer: Any, loader: Any, phase: Phase) -> None:
    """Where batches are judged as they are made of rows; other trainers' loaders are left alone."""
    if profiles.of(trainer).hears_batches:
        from vlmguard_transformers.data import phases

        phases.mark(loader, phase)


eval_loader = loader("eval")
