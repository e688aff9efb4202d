"""The wrappers of `seams.SEAMS`: plain loops, DeepSpeed's engine, GradScaler."""

from __future__ import annotations

import itertools
import weakref
from functools import partial
from typing import Any

import torch

from vlmguard.core import runstate
from vlmguard.runtime import seams
from vlmguard.runtime.faults import contain
from vlmguard_torch import stepping
from vlmguard_torch.layout import towers
from vlmguard_torch.ledger import optimizers, start, watcher
from vlmguard_torch.ledger.readers import special
from vlmguard_torch.module_calls import ForwardHook, is_compiled

Args = tuple[Any, ...]
Options = dict[str, Any]
LOOKS = 8
"""Forwards of a model after which no optimizer is looked for any more."""
_before: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Parameters that FSDP2 has put shards in the place of, while somebody holds them."""


def optimizer(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """An optimizer is made."""
    made = wrapped(*args, **kwargs)
    contain("noting an optimizer", _noted, instance)
    return made


def _noted(optimizer: Any) -> None:
    seams.wake()
    optimizers.note(optimizer)


def wrapped(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """DDP has wrapped a model."""
    made = wrapped(*args, **kwargs)
    contain("the ledger of a plain loop", _wrapped, instance)
    return made


def _wrapped(wrapper: Any) -> None:
    _wait(wrapper.module, "ddp", start.group_of(wrapper))


def sharded(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """FSDP2 splits a module's parameters, those of a whole model or of a part of it. An optimizer
    that was made before holds the whole ones, which are no part of the model any more."""
    module = args[0] if args else kwargs.get("module")
    several = module if isinstance(module, (list, tuple)) else [module]
    for each in several:
        contain("the ledger of a plain loop", _remember, each)
    made = wrapped(*args, **kwargs)
    for each in several:
        contain("the ledger of a plain loop", _wait, each, "fsdp2")
    return made


def _remember(module: Any) -> None:
    for p in module.parameters():
        _before[id(p)] = p


def engine(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """DeepSpeed has wrapped a model."""
    made = wrapped(*args, **kwargs)
    contain("the ledger of a plain loop", _engine, instance)
    return made


def _engine(engine: Any) -> None:
    if not _guarded() and _followed(engine.module) and engine.optimizer is not None:
        start.watch(engine, engine.optimizer)


def engine_step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """DeepSpeed's engine steps: its optimizer, at the end of a window."""
    found = contain("the ledger", _watchers, instance)
    for each in found or ():
        contain("the ledger", each.before)
    skipped = getattr(instance, "skipped_steps", 0)
    done = wrapped(*args, **kwargs)
    left_out = getattr(instance, "skipped_steps", 0) != skipped
    # DeepSpeed leaves out a step whose loss scale is too large, and halves the scale.
    scales = getattr(getattr(instance, "optimizer", None), "dynamic_loss_scale", False)
    for each in found or ():
        contain("the ledger", partial(each.skip, bool(scales)) if left_out else each.after)
    return done


def _watchers(engine: Any) -> list[watcher.Watcher]:
    """Where it is a boundary: those that watch the engine's optimizer."""
    found = watcher.of(getattr(engine, "optimizer", None))
    return found if found and engine.is_gradient_accumulation_boundary() else []


def scaler_step(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """A scaler steps an optimizer, or leaves the step out."""
    moved = args[0] if args else kwargs.get("optimizer")
    found = contain("the ledger", watcher.of, stepping.own(moved)) or []
    windows = [each.window for each in found]
    done = wrapped(*args, **kwargs)
    for each, window in zip(found, windows, strict=True):
        each.skipped += each.window == window and not each.closed
    return done


def _guarded() -> bool:
    """Whether an adapter knows the run."""
    return bool(runstate.opens())


def _followed(module: Any) -> bool:
    """Whether it sees or writes, trains, and is not compiled: hooks would have it compiled
    again."""
    if any(is_compiled(each) for each in module.modules()):
        return False
    if not any(p.requires_grad for p in module.parameters()):
        return False
    return bool(towers.by_name(module)) or special.writes(module) is True


def _wait(module: Any, strategy: str, group: Any = None) -> None:
    """Until its first forward that trains: then there is an optimizer. The module inside DDP is
    looked at, since a forward may go past the wrapper."""
    if not _guarded() and any(p.requires_grad for p in module.parameters()):
        _Waiting(module, strategy, group)


class _Waiting:
    """Looks for the optimizer of a model at its forwards; the first one that runs is the root."""

    def __init__(self, module: Any, strategy: str, group: Any) -> None:
        self._group = group
        self._left, self._strategy = itertools.count(LOOKS, -1), strategy
        self._handle = ForwardHook("the ledger of a plain loop", self._look).on(module)
        # First: FSDP2's hook replaces its shards by whole parameters.
        module._forward_pre_hooks.move_to_end(self._handle.id, last=False)

    def _look(self, module: Any, args: Args, kwargs: Any) -> None:
        if not (module.training and torch.is_grad_enabled()):
            return
        known = [] if _guarded() else optimizers.optimizers()
        found = [each for each in known if moves(each, module)]
        if found or _guarded() or next(self._left) <= 0:
            self._handle.remove()
        # FSDP2's root has run its hooks already: what this forward uses cannot be seen.
        whole = self._strategy != "fsdp2"
        for each in found if _followed(module) else ():
            made = start.watch(
                module, each, strategy=self._strategy, group=self._group, whole=whole
            )
            if made is not None:
                made.forward(module, args, kwargs)  # its hook misses this forward


def moves(optimizer: Any, module: Any) -> bool:
    """Whether it moves parameters of this module alone, those that it had before it was split."""
    holds = [p for group in getattr(optimizer, "param_groups", ()) for p in group["params"]]
    own = set(map(id, module.parameters()))
    return bool(holds) and all(id(p) in own or _before.get(id(p)) is p for p in holds)
