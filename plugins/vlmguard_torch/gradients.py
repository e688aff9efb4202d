"""Which trainable parameters a backward reached, without reading a tensor or waiting for a device.

The first steps are watched and the first step of every new kind of batch; the rest cost nothing.
Where torch leaves a gradient in place, one that was None before the window and is none after it
tells (3 ms for 10,000 parameters; a hook on each, 40 and more). Under ZeRO and Gemini it means
nothing, nor where a hook of the user's own may take it away (LOMO, GaLore): hooks tell there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress, repeat
from operator import attrgetter, is_, is_not
from typing import Any

from vlmguard.core.facts import Gradients
from vlmguard_torch.towers import kind_of, plain

FIRST_STEPS = 3
_Parameters = tuple[list[str], list[Any]]  # names, and the parameters
_GRAD = attrgetter("grad")
_MEDIA = {
    "pixel_values_videos": "video",
    "pixel_values": "image",
    "input_features": "audio",
    "input_values": "audio",
}


def kinds_of(inputs: Any) -> tuple[str, ...]:
    """Kinds of input in a batch, by its keys; () for what is no mapping."""
    if not isinstance(inputs, Mapping):
        return ()
    found = set()
    for key in inputs:
        kind = next((k for part, k in _MEDIA.items() if isinstance(key, str) and part in key), None)
        if kind is not None and inputs[key] is not None:
            found.add(kind)
    return tuple(sorted(found)) or ("text",)


def _taken(parameter: Any) -> bool:
    """Whether a hook that is not ours may take its gradient away in backward."""
    return bool(parameter._backward_hooks or parameter._post_accumulate_grad_hooks)


class Watch:
    """Coverage of one trainer's parameters, over one accumulation window at a time.

    What trains is asked anew in each watched window: callbacks freeze and unfreeze (LISA).
    """

    def __init__(
        self,
        model: Any,
        paths: Mapping[str, tuple[str, ...]],
        untrained: tuple[str, ...] = (),
        stays: bool = True,
    ) -> None:
        """
        Args:
            stays: whether a gradient is left at its parameter from backward to the optimizer.
        """
        self.untrained = untrained
        self.stays = stays
        self.parameters: dict[str, _Parameters] = {}
        for name, p in {plain(name): p for name, p in model.named_parameters()}.items():
            names, every = self.parameters.setdefault(kind_of(name, paths), ([], []))
            names.append(name)
            every.append(p)
        self.watched: dict[str, _Parameters] = {}
        self.taken = {name for name, p in self._all(self.parameters) if _taken(p)}
        self.reached: set[str] = set()
        self.hooked: set[str] = set()
        self.trained: set[str] = set()  # towers that a gradient reached in an earlier step
        self.kinds: set[str] = set()
        self.seen: set[tuple[str, ...]] = set()
        self.steps = 0
        self._on = False
        self._handles: list[Any] = []

    def before(self, kinds: tuple[str, ...]) -> None:
        """Begin to watch if this step is one to watch."""
        self.kinds.update(kinds)
        if self._on or (self.steps >= FIRST_STEPS and kinds in self.seen):
            return
        self.seen.add(kinds)
        self._on = True
        for kind, every in self.parameters.items():
            # In C, and each parameter asked for one thing: of so many, each look costs as much.
            there = any(map(is_not, map(_GRAD, every[1]), repeat(None)))
            self.watched[kind] = _training(*every) if there or not self.stays else every
            if there or self.taken or not self.stays:
                self._hook(*self.watched[kind])

    def _hook(self, names: list[str], every: list[Any]) -> None:
        """On those whose gradient says nothing: it is there beforehand, or is taken away."""
        for name, p in zip(names, every, strict=True):
            if not p.requires_grad or (self.stays and p.grad is None and name not in self.taken):
                continue
            self.hooked.add(name)
            # Called in backward, where nothing of ours may fail: nothing but a set's own method.
            mark = lambda _, name=name: self.reached.add(name)  # noqa: E731
            self._handles.append(p.register_post_accumulate_grad_hook(mark))

    @staticmethod
    def _all(kinds: Mapping[str, _Parameters]) -> list[tuple[str, Any]]:
        return [each for every in kinds.values() for each in zip(*every, strict=True)]

    def after(self) -> Gradients | None:
        """The end of a window: what was reached; None if it was not watched."""
        self.steps += 1
        if not self._on:
            self.kinds.clear()
            return None
        trainable: dict[str, int] = {}
        unreached: dict[str, tuple[str, ...]] = {}
        for kind, every in self.watched.items():
            number, left = self._judged(*every)
            trainable |= {kind: number} if number else {}
            unreached |= {kind: left} if left else {}
        reached = {kind for kind, n in trainable.items() if n > len(unreached.get(kind, ()))}
        by_design = tuple(
            name
            for names in unreached.values()
            for name in names
            if any(part in name for part in self.untrained)
        )
        stale = tuple(sorted((self.trained & trainable.keys()) - reached))
        self.trained |= reached
        kinds = tuple(sorted(self.kinds))
        self.close()
        return Gradients(unreached, trainable, kinds, by_design, stale)

    def _judged(self, names: list[str], every: list[Any]) -> tuple[int, tuple[str, ...]]:
        """Of one kind's: how many train, and the names of those that no gradient reached."""
        hooked = self.hooked
        none: Iterable[bool] = map(is_, map(_GRAD, every), repeat(None))
        if hooked:
            none = [is_none or name in hooked for is_none, name in zip(none, names, strict=True)]
        maybe = list(compress(zip(names, every, strict=True), none))
        still = [(name, p) for name, p in maybe if p.requires_grad]  # the rest: frozen
        left = tuple(name for name, p in still if not self._reached(name, p))
        return len(every) - len(maybe) + len(still), left

    def _reached(self, name: str, parameter: Any) -> bool:
        """Whether a gradient came to one that has none now, or whose gradient says nothing."""
        if name in self.hooked:
            return name in self.reached
        if _taken(parameter):  # since this watch was made: nothing is known of it yet
            self.taken.add(name)
            return True
        return hasattr(parameter, "_in_backward_optimizers")  # which have used it

    def close(self) -> None:
        """Take every hook off."""
        for handle in self._handles:
            handle.remove()
        self._on = False
        self._handles.clear()
        self.watched.clear()
        self.hooked.clear()
        self.reached.clear()
        self.kinds.clear()


def _training(names: list[str], every: list[Any]) -> _Parameters:
    """Those of them that train."""
    train = [(name, p) for name, p in zip(names, every, strict=True) if p.requires_grad]
    return [name for name, _ in train], [p for _, p in train]
