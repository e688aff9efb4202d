"""Optimizers: which parameters one holds, and when it steps."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from vlmguard.runtime.faults import contain
from vlmguard_torch.module_calls import Hooked

_INSIDE = ("optimizer", "base_optimizer")
_OF_DEEPSPEED = ("bit16_groups", "fp16_groups", "bf16_groups")
"""Where DeepSpeed's optimizers keep the model's own parameters: their groups hold flat parts."""


def chain(optimizer: Any) -> Iterator[Any]:
    """An optimizer and those that it wraps (accelerate's, DeepSpeed's, SAM's), outermost first."""
    seen: set[int] = set()
    waiting = [optimizer]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [vars(each).get(name) for name in _INSIDE if hasattr(each, "__dict__")]


def own(optimizer: Any) -> Any:
    """Without accelerate's wrapper."""
    made = type(optimizer).__module__.partition(".")[0]
    return optimizer.optimizer if made == "accelerate" else optimizer


def held(optimizer: Any) -> set[int]:
    """Identities of the parameters that it moves, and of DeepSpeed's flat parts."""
    found: set[int] = set()
    for each in chain(optimizer):
        for group in getattr(each, "param_groups", ()):
            found.update(map(id, group["params"]))
        for name in _OF_DEEPSPEED:
            for parameters in vars(each).get(name) or ():
                found.update(map(id, parameters))
    return found


class AtStep(Hooked):
    """Calls ``call()`` where one optimizer steps: before it moves, or, if it is given a closure,
    whose backwards run inside, afterwards. Steps that a GradScaler leaves out are none."""

    def __init__(self, optimizer: Any, call: Callable[[], None]) -> None:
        self._call: Any = weakref.WeakMethod(call)
        self._handles = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]

    def _before(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        contain("judging gradients", self._now, args, kwargs, False)

    def _after(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        contain("judging gradients", self._now, args, kwargs, True)

    def _now(self, args: tuple[Any, ...], kwargs: dict[str, Any], behind: bool) -> None:
        call = self._call()
        if call is not None and has_closure(args, kwargs) is behind:
            call()


def has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a step was given a closure; ``args`` begin with the optimizer."""
    return kwargs.get("closure") is not None or (len(args) > 1 and args[1] is not None)
