"""Gradients of a run's steps, judged before the optimizer moves; the line of the first step.

A watch belongs to an optimizer, and ends with it. A torch optimizer is judged at its own ``step``;
DeepSpeed, whose step sits inside backward, at the engine's.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vlmguard import guard, registry, run_report
from vlmguard.core import runstate
from vlmguard.core.facts import PARTITIONED, Run
from vlmguard.core.runstate import RunState
from vlmguard.runtime import seams
from vlmguard.runtime.faults import contain
from vlmguard_torch import stepping
from vlmguard_torch.module_calls import ForwardHook
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.data.batches import HEARS
from vlmguard_transformers.model_reading import BLANKS, Reading
from vlmguard_transformers.profile import Paths, Profile

if TYPE_CHECKING:
    from vlmguard_torch.watch.gradients import Watch

# FSDP puts other parameters in place of the model's: hooks on those would never be called.
_HOOKED = ("single", "ddp", "zero0", "zero1", "zero2", "zero3")
_TAKEN = ("zero0", "zero1", "zero2", "zero3")  # DeepSpeed takes gradients from the parameters
_KEY, _KNOWN = "profile", "optimizers"
_CALLS = "calls of towers"
_FORWARDS = "forwards"
ABREAST = "abreast"
"""What compares the ranks' calls, where they can part."""
_SETTLED = "settled"
_EACH_STEP = (_FORWARDS, ABREAST, _CALLS)
"""What is kept as long as something is looked at in each step."""


class Seen(NamedTuple):
    """Of a `Reading`, what an optimizer's watch is told: names, no parameters."""

    profile: Profile
    towers: Paths
    never_used: tuple[str, ...]


class Watched:
    """One optimizer that moves parameters of one run's model. Lives as long as the optimizer.

    Attributes:
        engine: whether DeepSpeed's engine steps it.
        judged: whether the window that the engine ended was judged at its step.
    """

    def __init__(self, state: RunState, watch: Watch, optimizer: Any) -> None:
        self._state, self.watch = weakref.ref(state), watch
        self.judged = False
        self.engine = state.run is not None and state.run.strategy in _TAKEN
        self._hooks = None if self.engine else stepping.AtStep(optimizer, self.step)

    def step(self) -> None:
        """The optimizer steps. Raises `Stop` where it must not."""
        self.judged = True
        if not self.watch.towers:
            return  # none is watched any more
        state, gradients = self._state(), self.watch.end()
        if gradients is None or state is None:
            return
        guard.pre_step(state, gradients=gradients)
        if gradients.wiring and any(code == "VG302" for code, _ in state.said):
            state.no_gradient |= gradients.wiring.keys()

    def close(self) -> None:
        """Take every hook off."""
        self.watch.close()
        if self._hooks is not None:
            self._hooks.close()


_by_optimizer: weakref.WeakKeyDictionary[Any, list[Watched]] = weakref.WeakKeyDictionary()


def start(read: Reading, state: RunState) -> None:
    """Count forwards; have the optimizers of ``trainer`` watched, once they are known, where the
    strategy lets hooks see gradients. A hook on a compiled model, put on or taken off, would have
    it compiled once more."""
    trainer, compiles = read.trainer, hf.compiles(read.trainer)
    if not compiles:
        count(trainer.model, state)
    state.kept[_KNOWN] = weakref.WeakSet()
    if state.run is None:
        return
    if state.run.strategy in PARTITIONED:
        from vlmguard_transformers.watch import call_count_sync

        call_count_sync.start(trainer, state)
    if "VG102" in state.neutral and not compiles:
        from vlmguard_transformers.watch.tower_calls import Calls

        seeing = (path for tower in state.run.trained_towers for path in tower.paths)
        calls = state.kept[_CALLS] = Calls(trainer.model, seeing)
        state.at_close(calls.close)
    # `TowerForwards` leaves out towers that the user compiled, and watches the others.
    if state.run.strategy in _HOOKED and not hf.will_compile(trainer):
        state.kept[_KEY] = Seen(read.profile, read.towers, read.never_used)


def watch(trainer: Any, state: RunState, optimizer: Any, *, whole: bool = True) -> None:
    """Watch what of the run's model ``optimizer`` moves, from now on.

    Args:
        optimizer: as it steps: wrapped by accelerate or not, or DeepSpeed's.
        whole: whether no forward of its first step has been made.
    """
    own, known = stepping.own(optimizer), state.kept.get(_KNOWN, ())
    if own is None or own in known or state.run is None:
        return
    known.add(own)
    seen, holds, run = state.kept.get(_KEY), stepping.held(own), state.run
    if seen is not None and not any(id(p) in holds for p in trainer.model.parameters()):
        return  # it is the optimizer of another model
    runstate.bind(own, state)
    contain("the ledger", _keep_books, trainer, state, own, whole)
    if seen is None or not _can_watch(run, own):
        return
    from vlmguard_torch.watch.gradients import Watch  # imported only when it is needed

    made = Watch(
        seen.profile.model(trainer),
        seen.towers,
        holds,
        (*seen.never_used, *run.never_used, *run.text_skips),
        stays=run.strategy not in _TAKEN,
        stale=run.strategy == "zero3",
        fails=run.needs_all_gradients,
        whole=whole,
        top=trainer.model,
    )
    if not made.towers:
        return
    watched = Watched(state, made, own)
    _by_optimizer.setdefault(own, []).append(watched)
    state.closes(watched)


def _keep_books(trainer: Any, state: RunState, optimizer: Any, whole: bool) -> None:
    """Imported here: a run is judged, and may end, without it."""
    from vlmguard_transformers.watch import ledger

    ledger.watch(trainer, state, optimizer, whole)


def _can_watch(run: Run, optimizer: Any) -> bool:
    """Torch's optimizers have hooks, unless a wrapper never called their ``__init__``."""
    return run.strategy in _TAKEN or hasattr(optimizer, "_optimizer_step_pre_hooks")


def before(trainer: Any, state: RunState) -> None:
    """A step begins; its forward is yet to come."""
    if not state.stepped:
        guard.look_again(state)
    if (abreast := state.kept.get(ABREAST)) is not None:
        abreast.step(trainer.model)
    watch(trainer, state, getattr(trainer, "optimizer", None))


def settle(state: RunState) -> bool:
    """After a step: whether later ones have nothing that is looked at here. What follows a window
    hangs on the optimizer."""
    kept, run = state.kept, state.run
    busy = not state.stepped or state.set or any(map(kept.get, _EACH_STEP))
    if busy or run is None or run.strategy in _TAKEN:
        return False
    if registry.get().asks(run.framework, batch=kept.get(HEARS, True)):
        return False  # a rule judges each batch
    kept[_SETTLED] = True
    return True


def settled(state: RunState, optimizers: Iterable[Any]) -> bool:
    """Whether a step of these optimizers may be left alone."""
    if _SETTLED not in state.kept or state.phase != "train":
        return False
    known = state.kept[_KNOWN]
    if not all(stepping.own(each) in known for each in optimizers):
        return False
    if all(_SETTLED in each.kept for each in runstate.opens()):
        seams.rest()
    return True


def at_engine(engine: Any) -> None:
    """DeepSpeed is about to step."""
    state = runstate.of(engine.optimizer)
    if state is None:
        return
    judge_forwards(state)
    if engine.is_gradient_accumulation_boundary():
        for watched in _by_optimizer.get(engine.optimizer, ()):
            watched.step()


def after_engine(optimizer: Any) -> None:
    """DeepSpeed has stepped inside backward: a window that nobody judged before is judged now."""
    for watched in _by_optimizer.get(stepping.own(optimizer), ()):
        if watched.engine and not watched.judged:
            watched.step()
        watched.judged = False


def after(trainer: Any, state: RunState) -> None:
    """A step is over, its backward has run."""
    judge_forwards(state)
    run_report.first_step(state)
    _count(state)


def padded(state: RunState) -> int:
    """Forwards of this run, on this rank, in which a tower ran on a blank input."""
    return sum(handle.padded for handle in state.kept.get(BLANKS, ()))


def confirmed(state: RunState) -> None:
    """A backward is over: what was set has held if a forward ran on a blank input."""
    ran = padded(state) if state.set else 0
    if ran:
        times = "a forward" if ran == 1 else f"{ran} forwards"
        how = f"{times} without media got a blank input, and it held"
        run_report.confirmed(state, how)


def failed(state: RunState | None, error: BaseException) -> None:
    """The run ends in an exception. Of one that is raised where ranks work together, a blank input
    that ran before may be the cause: what was said of it is taken back."""
    ran = padded(state) if state is not None else 0
    if state is None or not ran or not _between_ranks(error):
        return
    times = "a forward" if ran == 1 else f"{ran} forwards"
    how = f"a blank input had run in {times} here, and then the ranks failed together"
    run_report.taken_back(state, how, error)


_TOGETHER = ("torch.distributed", "torch.nn.parallel", "deepspeed")


def _between_ranks(error: BaseException) -> bool:
    """Whether its innermost frame is of what exchanges gradients and weights, and it is not that
    memory ran out there."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return str(where).startswith(_TOGETHER)


def _count(state: RunState) -> None:
    """Whether a tower did run more than once in a forward, as was only possible before."""
    calls = state.kept.get(_CALLS)
    most = calls.step() if calls is not None and state.run is not None else 0
    if state.run is not None and most > state.run.forwards:
        run_report.proved(state, "VG102", f"a tower ran {most} times in this step, and it held")


class Count:
    """Forwards with a gradient since counting began. A loss of the user's own cannot be read
    beforehand: how often it calls the model before one backward is counted in the first training
    step, whose optimizer has yet to move."""

    def __init__(self, model: Any) -> None:
        self.number, self.over = 0, False
        self._handle = ForwardHook("counting forwards", self._forward).on(model)

    def _forward(self, module: Any, args: Any, kwargs: Any) -> None:
        import torch

        if module.training and torch.is_grad_enabled() and not self.over:
            self.number += 1

    def close(self) -> None:
        """Count no more."""
        self._handle.remove()


def count(model: Any, state: RunState) -> None:
    """Count forwards until `judge_forwards`."""
    counting = state.kept[_FORWARDS] = Count(model)
    state.at_close(counting.close)


def accumulates(state: RunState, model: Any) -> None:
    """Before a forward of a loop whose steps may have several backwards: once one has run, forwards
    belong to another. The hook stays on: torch may be going through the model's hooks."""
    count = state.kept.get(_FORWARDS)
    if count is not None and count.number:
        count.over |= any(p.grad is not None for p in model.parameters())


def judge_forwards(state: RunState) -> None:
    """Judge the run with the forwards that its first step made. Raises `Stop` where that many are
    wrong: what is wrapped already cannot be mended."""
    count = state.kept.pop(_FORWARDS, None)
    if count is None or state.run is None:
        return
    count.close()
    if count.number <= max(1, state.run.forwards):
        return
    before = {finding.code for finding in registry.get().pre_wrap(state.run)}
    state.run = replace(state.run, forwards=count.number)
    found = registry.get().pre_wrap(state.run)
    guard.judge((finding for finding in found if finding.code not in before), state)
