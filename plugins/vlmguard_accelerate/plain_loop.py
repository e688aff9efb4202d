"""A plain loop's life: judged and mended where DDP takes its model, watched at each forward and
each step of its optimizers. As careful as with accelerate, and silent where another adapter is in
charge, or where transformers is not there: what reads a model knows its classes."""

from __future__ import annotations

import sys
import weakref
from functools import partial
from typing import Any

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.findings import Advice, FindUnused
from vlmguard.core.runstate import RunState
from vlmguard.runtime.faults import contain
from vlmguard_accelerate import loaders, loop
from vlmguard_accelerate.standin import Ddp, StandIn
from vlmguard_torch import stepping
from vlmguard_torch.ledger import optimizers, start, watcher
from vlmguard_torch.ledger.wrappers import moves
from vlmguard_transformers import accelerators, translate
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.profile import Profile
from vlmguard_transformers.watch import first_steps

Args = tuple[Any, ...]
Options = dict[str, Any]
_OTHERS, _READS = "colossalai", "transformers"
"""Wraps models in DDP itself, by an adapter of its own; and what knows the classes of models."""
_TAKER, _LOOKED = "what stands for an accelerator", "optimizers that were looked at"


class Plain(Profile):
    """The plain profile, with DDP's own arguments."""

    name = "torch"
    distributions = ("torch",)
    owns = ()

    def spell(self, advice: Advice) -> str:
        if isinstance(advice, FindUnused):
            return f"DistributedDataParallel(model, find_unused_parameters={advice.value})"
        return loop.PROFILE.spell(advice)


PROFILE = Plain()


def wrapped(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Judge and mend the run of a plain loop whose model DDP is about to take."""
    state = contain("judging a loop", _begin, args, kwargs)
    if state is None:
        return wrapped(*args, **kwargs)
    options = contain("choosing DDP's options", _options, state)
    changed = options if isinstance(options, dict) else {}
    made = wrapped(*args, **{**kwargs, **changed})
    contain("knowing DDP's process group", _took, state, instance)
    contain("listening to a loop's forwards", listen, state, instance)
    return made


def _took(state: RunState, wrapper: Any) -> None:
    """DDP has its process group, which need not be that of all ranks."""
    state.kept[_TAKER].group = start.group_of(wrapper)


def _options(state: RunState) -> Options:
    """What the plan changed."""
    changed: Options = state.kept[_TAKER].changed()
    return changed


def _begin(args: Args, kwargs: Options) -> RunState | None:
    """The open state of a loop that trains towers, if this is where it begins."""
    model = args[0] if args else kwargs.get("module")
    if len(args) > 3 or not loop.trains_towers(model):
        return None
    ddp = Ddp(model, kwargs)
    return begin(ddp, model) if ddp.num_processes > 1 and alone(model) else None


def alone(model: Any) -> bool:
    """Whether nobody else is in charge, and what reads a model is there. A brief run of the model
    or of a part of it ends: what takes it now is the loop's own."""
    if loop.preparing() or accelerators.of_trainers or _OTHERS in sys.modules:
        return False
    opens, parts = runstate.opens(), {id(each) for each in model.modules()}
    if not reads() or not all(_passes(state, parts) for state in opens):
        return False
    for state in opens:
        guard.close(state)
    return True


def reads() -> bool:
    """Whether what knows the classes of models is imported."""
    return _READS in sys.modules


def _passes(state: RunState, parts: set[int]) -> bool:
    """Whether it is a brief run of one of these."""
    made = loop.loop_of(state)
    return getattr(state.kept.get(_TAKER), "brief", False) and id(made and made.model) in parts


def begin(
    taker: StandIn, model: Any, rows: Any = None, profile: Profile = PROFILE
) -> RunState | None:
    """The open state of the run of ``model``, judged and mended; None if it could not be read.

    Args:
        rows: has its ``dataset`` and ``collate_fn``; the first data loader if not given.
    """
    read = Reading(loop.Loop(taker, model, rows or loaders.first()), profile)
    state = translate.judge(read)
    if state is not None:
        state.kept[_TAKER] = taker
        loop.begin(state, read, _forward)
    return state


def listen(state: RunState, module: Any) -> None:
    """Explain what a forward raises, the wrapper's own words among it; the run ends with it."""
    loop.witness(state, module)
    weakref.finalize(module, _gone, weakref.ref(state)).atexit = False


def _gone(held: weakref.ref[RunState]) -> None:
    contain("letting go of the run", guard.close, held())


def _forward(state: RunState, module: Any, args: Args, kwargs: Options) -> None:
    """Before a forward: hear the batch, and watch the optimizers that move this model. The hook
    holds the state: all of it goes with the model."""
    import torch

    loop.note(state, module, args, kwargs)
    if not (module.training and torch.is_grad_enabled()):
        return
    made = loop.loop_of(state)
    contain("watching gradients", first_steps.before, made, state)
    for each in optimizers.optimizers():
        for books in contain("watching gradients", watch, state, each) or ():
            books.forward(module, args, kwargs)  # its hook misses this forward


def watch(state: RunState, optimizer: Any) -> list[watcher.Watcher]:
    """Watch an optimizer, if it moves this run's model; answers with what keeps its books."""
    made, own = loop.loop_of(state), stepping.own(optimizer)
    looked = state.kept.setdefault(_LOOKED, weakref.WeakSet())
    if made is None or made.model is None or own in looked or runstate.of(own) is not None:
        return []
    looked.add(own)
    held = stepping.held(own).intersection(map(id, made.model.parameters()))
    if not held and not moves(own, made.model):
        return []  # it is the optimizer of another model
    # FSDP2's root has run its hooks already: what this forward uses cannot be seen.
    sharded = state.run is not None and state.run.strategy == "fsdp2"
    first_steps.watch(made, state, own, whole=not sharded)
    if runstate.of(own) is state and hasattr(own, "register_step_post_hook"):
        done = partial(_stepped, weakref.ref(state))
        state.at_close(own.register_step_post_hook(done).remove)
    return watcher.of(own)


def _stepped(held: weakref.ref[RunState], optimizer: Any, args: Args, kwargs: Options) -> None:
    contain("judging gradients", judge, held())


def judge(state: RunState | None) -> None:
    """A step is over: sum up the first one."""
    made = loop.loop_of(state)
    if state is None or made is None:
        return
    first_steps.after(made, state)
    loop.stepped(state, made)
