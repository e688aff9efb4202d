"""A loop's life: judged and mended where its model is prepared, watched at each backward. The
wrappers of `SEAMS`, in the order of events."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.advice import Advice, FindUnused, SetVariant
from vlmguard.core.runstate import RunState
from vlmguard.runtime.faults import contain
from vlmguard_torch import freezing, towers
from vlmguard_torch.onlooker import Onlooker, Witness
from vlmguard_transformers import apply, steps, translate
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.profile import Profile

Args = tuple[Any, ...]
Options = dict[str, Any]
_KEY = "loop"
_of_trainers: weakref.WeakSet[Any] = weakref.WeakSet()


class Accelerate(Profile):
    """The plain profile, with the calls of accelerate's own."""

    name = "accelerate"
    distributions = ("accelerate",)
    owns = ()

    def spell(self, advice: Advice) -> str:
        if isinstance(advice, FindUnused):
            return f"DistributedDataParallelKwargs(find_unused_parameters={advice.value})"
        if isinstance(advice, SetVariant):
            told = f'{{"use_reentrant": {advice.use_reentrant}}}'
            return f"model.gradient_checkpointing_enable({told})"
        return super().spell(advice)


PROFILE = Accelerate()


class Loop:
    """What of a Trainer there is in a loop: as much as the Trainer adapter reads."""

    def __init__(self, accelerator: Any, model: Any, loader: Any) -> None:
        self.accelerator, self.model = accelerator, model
        self.train_dataset = getattr(loader, "dataset", None)
        self.data_collator = getattr(loader, "collate_fn", None)
        self.args = SimpleNamespace(
            world_size=accelerator.num_processes,
            process_index=accelerator.process_index,
            gradient_accumulation_steps=accelerator.gradient_accumulation_steps,
            device=accelerator.device,
            gradient_checkpointing=False,  # only what is on on the model
            ddp_find_unused_parameters=None,
            ddp_static_graph=None,
        )
        self.inputs: dict[str, bool | None] = {}

    def note(self, module: Any, args: Args, kwargs: Mapping[str, Any]) -> None:
        """Before a forward: which inputs this batch has, no tensor of it."""
        given = args[0] if args and isinstance(args[0], Mapping) else kwargs
        self.inputs = {name: None if value is None else True for name, value in given.items()}


def created(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """A Trainer has made its Accelerator."""
    made = wrapped(*args, **kwargs)
    contain("noting a trainer's accelerator", _note, instance)
    return made


def _note(trainer: Any) -> None:
    _of_trainers.add(trainer.accelerator)


def prepare(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Judge and mend the run of a loop whose model is about to be wrapped."""
    state = None
    if instance not in _of_trainers:
        state = contain("judging a loop", _begin, instance, args)
    made = wrapped(*args, **kwargs)
    if state is not None:
        contain("listening to a loop's forwards", _listen, state, made)
    return made


def _listen(state: RunState, made: Any) -> None:
    """Explain what a forward of the wrapped model raises, DDP's own words among it."""
    model = state.kept[_KEY].model
    for each in made if isinstance(made, (list, tuple)) else (made,):
        if hasattr(each, "register_forward_hook") and any(m is model for m in each.modules()):
            heard = Witness("explaining the failure", partial(guard.on_error, state.run, None))
            state.at_close(heard.on(each).remove)


def _begin(accelerator: Any, objects: Args) -> RunState | None:
    """The open state of a loop that trains towers, if this is where it begins."""
    model = next((each for each in objects if _trains_towers(each)), None)
    if model is None or runstate.of(model) is not None:
        return None
    loop = Loop(accelerator, model, _loader(objects))
    if hf.strategy(loop) == "ddp" and accelerator.ddp_handler is None:
        from accelerate import DistributedDataParallelKwargs

        # DDP's own defaults: what accelerate does without a handler, as an object to change.
        accelerator.ddp_handler = DistributedDataParallelKwargs()
    state = guard.pre_wrap(
        lambda: translate.run(loop, PROFILE),
        lambda plan: apply.apply(loop, PROFILE, plan),
        lambda: freezing.check(model, PROFILE.policy(), PROFILE.parts(loop)),
        owner=loop,
        spell=PROFILE.spell,
        speaks=PROFILE.speaks,
    )
    if state is None:
        return None
    state.kept[_KEY] = loop
    for owner in (accelerator, model):
        runstate.bind(owner, state)
    state.at_close(Onlooker("noting a batch", loop.note).on(model).remove)
    contain("watching gradients", steps.start, loop, PROFILE, state)
    return state


def _trains_towers(each: Any) -> bool:
    if not hasattr(each, "named_parameters") or not towers.by_name(each):
        return False
    return any(parameter.requires_grad for parameter in each.parameters())


def _loader(objects: Iterable[Any]) -> Any:
    """The first data loader: in a loop, that of training."""
    return next((each for each in objects if hasattr(each, "collate_fn")), None)


def backward(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Watch which parameters this backward reaches; explain what goes wrong in it."""
    state = guard.state_of(instance)
    if state is None or _KEY not in state.kept:
        return wrapped(*args, **kwargs)
    loop = state.kept[_KEY]
    contain("watching gradients", steps.before, loop, state, loop.inputs)
    try:
        return wrapped(*args, **kwargs)
    except Exception as error:
        contain("explaining the failure", guard.on_error, state.run, None, error)
        raise
    finally:
        contain("ending a backward", steps.left, state)


def step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Judge the gradients before the optimizer moves."""
    contain("judging gradients", _judge)
    return wrapped(*args, **kwargs)


def _judge() -> None:
    state = runstate.current()
    if state is not None and _KEY in state.kept:
        steps.after(state.kept[_KEY], state)
        steps.held(state)


def end(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Training has ended."""
    contain("letting go of the run", _let_go, instance)
    return wrapped(*args, **kwargs)


def _let_go(accelerator: Any) -> None:
    state = runstate.of(accelerator)
    if state is not None and _KEY in state.kept:
        guard.close(state)
