"""Gradients of a Trainer's steps, judged before the optimizer moves; the line of the first step.

Under DDP they are judged after ``training_step``; under DeepSpeed, whose step sits inside backward,
at the engine's own ``step``.
"""

from __future__ import annotations

from typing import Any

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.runstate import RunState
from vlmguard_torch.gradients import Watch, kinds_of
from vlmguard_transformers import abreast, forwards, padding
from vlmguard_transformers.profile import Profile
from vlmguard_transformers.repeats import Calls

# FSDP puts other parameters in place of the model's: hooks on those would never be called.
_HOOKED = ("single", "ddp", "zero0", "zero1", "zero2", "zero3")
_TAKEN = ("zero0", "zero1", "zero2", "zero3")  # DeepSpeed takes gradients from the parameters


class Watched:
    """A trainer's gradients while it trains.

    Attributes:
        watch: which parameters a backward reached.
        stepping: whether the trainer is inside ``training_step``.
        judged: whether this window's gradients were judged already.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.stepping = self.judged = False


_KEY = "watched"
_CALLS = "calls of towers"


def start(trainer: Any, profile: Profile, state: RunState) -> None:
    """Count forwards; watch the gradients of ``trainer`` where the strategy lets hooks see them."""
    forwards.start(trainer.model, state)
    if state.run is None:
        return
    abreast.start(trainer, state)
    if "VG102" in state.neutral:
        seeing = (path for tower in state.run.trained_towers for path in tower.paths)
        calls = state.kept[_CALLS] = Calls(trainer.model, seeing)
        state.at_close(calls.close)
    if state.run.strategy not in _HOOKED:
        return
    unused = (*profile.never_used(trainer), *state.run.never_used, *state.run.text_skips)
    stays = state.run.strategy not in _TAKEN
    watch = Watch(profile.model(trainer), profile.towers(trainer), unused, stays)
    state.kept[_KEY] = Watched(watch)
    state.at_close(watch.close)


def before(trainer: Any, state: RunState, inputs: Any) -> None:
    """A step begins."""
    if not state.stepped:
        guard.look_again(state)
    abreast.step(trainer, state)
    found = state.kept.get(_KEY)
    if found is not None:
        found.stepping, found.judged = True, False
        found.watch.before(kinds_of(inputs))


def left(state: RunState) -> None:
    """A step is over, or failed."""
    found = state.kept.get(_KEY)
    if found is not None:
        found.stepping = False


def at_engine(engine: Any) -> None:
    """DeepSpeed is about to step."""
    state = runstate.current()
    if state is None:
        return
    forwards.judge(state)
    found = state.kept.get(_KEY)
    if found is not None and found.stepping and engine.is_gradient_accumulation_boundary():
        _judge(state, found)


def after(trainer: Any, state: RunState) -> None:
    """A step is over: at the end of a window its gradients are judged, if they were not."""
    forwards.judge(state)
    guard.first_step(state)
    _count(state)
    found = state.kept.get(_KEY)
    if found is None or found.judged or not getattr(trainer.accelerator, "sync_gradients", True):
        return
    _judge(state, found)


def held(state: RunState) -> None:
    """A backward is over: what was set has held if a forward ran on a blank input."""
    ran = padding.ran(state) if state.set else 0
    if ran:
        times = "a forward" if ran == 1 else f"{ran} forwards"
        how = f"{times} that lacked media ran the towers on a blank input, and the step held"
        guard.held(state, how)


def _count(state: RunState) -> None:
    """Whether a tower did run more than once in a forward, as was only possible before."""
    calls = state.kept.get(_CALLS)
    most = calls.step() if calls is not None and state.run is not None else 0
    if state.run is not None and most > state.run.forwards:
        guard.proved(state, "VG102", f"a tower ran {most} times in this step, and it held")


def _judge(state: Any, found: Watched) -> None:
    found.judged = True
    gradients = found.watch.after()
    if gradients is not None and state.run is not None:
        guard.pre_step(state.run, gradients=gradients)
