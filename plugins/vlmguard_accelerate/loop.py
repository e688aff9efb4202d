"""A loop's life: judged and mended where its model is prepared, watched at each backward. The
wrappers of `SEAMS`, in the order of events."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.core.facts import Phase
from vlmguard.core.findings import Advice, FindUnused, SetVariant
from vlmguard.core.runstate import RunState
from vlmguard.runtime.faults import contain
from vlmguard_torch import stepping
from vlmguard_torch.layout import by_structure
from vlmguard_torch.module_calls import ForwardHook, Heard, Witness
from vlmguard_transformers import accelerators, translate
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.data import batches
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.profile import Profile
from vlmguard_transformers.watch import first_steps

Args = tuple[Any, ...]
Options = dict[str, Any]
_KEY, _HEARING = "loop", "hook that hears batches"
_preparing = 0


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
    """What of a Trainer there is in a loop: as much as the Trainer adapter reads.

    It holds neither the model nor the accelerator, and a hook of the model holds it, by the run's
    state: all of it goes with the model.

    Attributes:
        heard: this window's batches.
    """

    def __init__(self, accelerator: Any, model: Any, loader: Any) -> None:
        self._accelerator, self._model = weakref.ref(accelerator), weakref.ref(model)
        self.heard = Heard()
        self.train_dataset = getattr(loader, "dataset", None)
        self.data_collator = getattr(loader, "collate_fn", None)
        self.shuffled = _shuffled(loader)
        self.args = SimpleNamespace(
            world_size=accelerator.num_processes,
            process_index=accelerator.process_index,
            gradient_accumulation_steps=accelerator.gradient_accumulation_steps,
            device=accelerator.device,
            gradient_checkpointing=False,  # the model's own setting counts
            ddp_find_unused_parameters=None,
            ddp_static_graph=None,
        )

    @property
    def accelerator(self) -> Any:
        """The one that prepared the model; None once it is gone."""
        return self._accelerator()

    @property
    def model(self) -> Any:
        """As it was given to ``prepare``; None once it is gone."""
        return self._model()


def note(state: RunState, module: Any, args: Args, kwargs: Mapping[str, Any]) -> None:
    """Before a forward of the model: hear a batch that is new."""
    contain("counting forwards", first_steps.accumulates, state, module)
    given = args[0] if args and isinstance(args[0], Mapping) else kwargs
    phase: Phase = "train" if module.training else "eval"
    generates = kwargs.get("past_key_values") is not None  # it generates, a token at a time
    if state.kept[_KEY].heard.first(given, phase) and not generates:
        state.phase = phase
        batches.hear(state, given)


def prepare(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Judge and mend the run of a loop whose model is about to be wrapped."""
    state = None
    if instance not in accelerators.of_trainers:
        state = contain("judging a loop", _begin, instance, args)
    global _preparing
    _preparing += 1
    try:
        made = wrapped(*args, **kwargs)
    finally:
        _preparing -= 1
    if state is not None:
        contain("listening to a loop's forwards", _listen, state, made)
        contain("knowing a loop's end", _end_with, state, instance, made)
    contain("watching gradients", _watch, instance, True)
    return made


def preparing() -> bool:
    """Whether an accelerator, a Trainer's or a loop's, is wrapping a model now."""
    return _preparing > 0


def _watch(accelerator: Any, whole: bool) -> None:
    """What of the accelerator's runs its optimizers move, as they become known. ``whole``: before
    the first forward."""
    for state in runstate.opens():
        loop = state.kept.get(_KEY)
        if loop is None or loop.accelerator is not accelerator or loop.model is None:
            continue
        for optimizer in getattr(accelerator, "_optimizers", ()):
            first_steps.watch(loop, state, optimizer, whole=whole)


def _listen(state: RunState, made: Any) -> None:
    """Explain what a forward of the wrapped model raises, DDP's own words among it."""
    model = state.kept[_KEY].model
    for each in made if isinstance(made, (list, tuple)) else (made,):
        if hasattr(each, "register_forward_hook") and any(m is model for m in each.modules()):
            witness(state, each)


def witness(state: RunState, module: Any) -> None:
    """Explain what a forward of ``module`` raises. The hook holds the state, also when all others
    are gone because the run is settled."""
    heard = Witness("explaining the failure", partial(_explain, state))
    state.at_close(heard.on(module).remove)


def _explain(state: RunState, error: BaseException) -> None:
    contain("taking back what did not hold", first_steps.failed, state, error)
    guard.on_error(state.run, None, error)


def _end_with(state: RunState, accelerator: Any, made: Any) -> None:
    """End the run when its accelerator and its optimizers are gone. Where the model goes, it takes
    all that is ours along; without optimizers, users train by ones that are not ours to see."""
    every = made if isinstance(made, (list, tuple)) else (made,)
    optimizers = [each for each in every if hasattr(each, "step")]
    owners = [accelerator, *optimizers] if optimizers else []
    held, left = weakref.ref(state), {id(each) for each in owners}
    for each in owners:
        weakref.finalize(each, _gone, held, left, id(each)).atexit = False


def _gone(held: weakref.ref[RunState], left: set[int], owner: int) -> None:
    left.discard(owner)
    if not left:
        contain("letting go of the run", guard.close, held())


def _taken_over(accelerator: Any, model: Any) -> bool:
    """Whether its run is open already; one of another accelerator ends here."""
    found = [runstate.of(each) for each in model.modules()]
    for state in [each for each in found if each is not None]:
        if _KEY not in state.kept or state.kept[_KEY].accelerator is accelerator:
            return True
        guard.close(state)
    return False


def _begin(accelerator: Any, objects: Args) -> RunState | None:
    """The open state of a loop that trains towers, if this is where it begins."""
    model = next((each for each in objects if trains_towers(each)), None)
    if model is None or _taken_over(accelerator, model):
        return None
    loop = Loop(accelerator, model, _loader(objects))
    if hf.strategy(loop) == "ddp" and accelerator.ddp_handler is None:
        from accelerate import DistributedDataParallelKwargs

        # DDP's own defaults: what accelerate does without a handler, as an object to change.
        accelerator.ddp_handler = DistributedDataParallelKwargs()
    read = Reading(loop, PROFILE)
    state = translate.judge(read)
    if state is None:
        return None
    runstate.bind(accelerator, state)
    begin(state, read, note)
    return state


def begin(state: RunState, read: Reading, look: Callable[..., None]) -> None:
    """A loop's run is judged: have ``look(state, module, args, kwargs)`` called before each forward
    until it is settled, and its steps watched."""
    loop = state.kept[_KEY] = read.trainer
    runstate.bind(loop.model, state)
    hearing = ForwardHook("noting a batch", partial(look, state)).on(loop.model)
    state.kept[_HEARING] = hearing
    state.at_close(hearing.remove)
    contain("watching gradients", first_steps.start, read, state)


def hears_first(state: RunState, model: Any) -> None:
    """Have it told of a forward before all other hooks are."""
    model._forward_pre_hooks.move_to_end(state.kept[_HEARING].id, last=False)


def loop_of(state: RunState | None) -> Loop | None:
    """The loop whose run this is; None if it is no loop's."""
    found: Loop | None = state.kept.get(_KEY) if state is not None else None
    return found


def stepped(state: RunState, loop: Loop) -> None:
    """A step is judged: what it leaves for the next one."""
    first_steps.confirmed(state)
    loop.heard.clear()
    if first_steps.settle(state):
        state.kept[_HEARING].remove()


def trains_towers(each: Any) -> bool:
    """Whether it is a model with towers of which something trains."""
    if not hasattr(each, "named_parameters"):
        return False
    if not any(parameter.requires_grad for parameter in each.parameters()):
        return False
    return by_structure.sees(each)


def _shuffled(loader: Any) -> bool:
    """Whether its rows are known to come at random."""
    if getattr(loader, "shuffled", False):
        return True
    batches = getattr(loader, "batch_sampler", None)
    if type(batches).__module__ != "torch.utils.data.sampler":
        return False
    sampler = getattr(batches, "sampler", None)
    kind = type(sampler)
    if not kind.__module__.startswith("torch.utils.data"):
        return False
    if kind.__name__ == "DistributedSampler":
        return bool(sampler.shuffle)
    return "Random" in kind.__name__


def _loader(objects: Iterable[Any]) -> Any:
    """The first data loader: in a loop, that of training."""
    return next((each for each in objects if hasattr(each, "collate_fn")), None)


def backward(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Watch which parameters this backward reaches; explain what goes wrong in it."""
    state = guard.state_of(instance)
    if state is None or _KEY not in state.kept:
        return wrapped(*args, **kwargs)
    loop = state.kept[_KEY]
    if not contain("watching gradients", _settled, instance, state):
        contain("watching gradients", first_steps.before, loop, state)
        contain("watching gradients", _watch, instance, False)
    try:
        return wrapped(*args, **kwargs)
    except Exception as error:
        failed(instance, error)
        raise


def failed(accelerator: Any, error: Exception) -> None:
    """A backward of a loop has raised: explain it."""
    state = guard.state_of(accelerator)
    if state is not None and _KEY in state.kept:
        contain("taking back what did not hold", first_steps.failed, state, error)
        contain("explaining the failure", guard.on_error, state.run, None, error)


def _settled(accelerator: Any, state: RunState) -> bool:
    optimizers = getattr(accelerator, "_optimizers", ())
    return bool(optimizers) and first_steps.settled(state, optimizers)


def step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Before the optimizer moves, or where it did inside backward: sum up the first step."""
    contain("judging gradients", _judge, instance)
    return wrapped(*args, **kwargs)


def _judge(optimizer: Any) -> None:
    state = runstate.of(stepping.own(optimizer))
    if state is None or _KEY not in state.kept or first_steps.settled(state, (optimizer,)):
        return
    loop = state.kept[_KEY]
    first_steps.after(loop, state)
    if getattr(loop.accelerator, "sync_gradients", True):
        first_steps.after_engine(optimizer)
    stepped(state, loop)


def end(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Training has ended, or its objects are let go of."""
    contain("letting go of the run", _let_go, instance)
    return wrapped(*args, **kwargs)


def _let_go(accelerator: Any) -> None:
    for state in runstate.opens():
        if _KEY in state.kept and state.kept[_KEY].accelerator is accelerator:
            guard.close(state)
