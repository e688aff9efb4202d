"""Which trainable parameters a backward reached, without reading a tensor or waiting for a device.

The first steps are watched and the first step of every new kind of batch; the rest cost nothing.
Where torch leaves a gradient in place, one that was None before the window and is none after it
tells (2 ms for 10,000 parameters; a hook on each, 40 and more). Under ZeRO and Gemini it means
nothing, nor where a hook of the user's own may take it away (LOMO, GaLore): hooks tell there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlmguard.core.facts import Gradients
from vlmguard_torch.towers import kind_of, plain

FIRST_STEPS = 3
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
        self.parameters: dict[str, list[tuple[str, Any]]] = {}  # kind → (name, parameter)
        for name, p in {plain(name): p for name, p in model.named_parameters()}.items():
            self.parameters.setdefault(kind_of(name, paths), []).append((name, p))
        self.watched: dict[str, list[tuple[str, Any]]] = {}
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
        self.watched = {
            kind: [each for each in every if each[1].requires_grad]
            for kind, every in self.parameters.items()
        }
        for name, p in self._hidden() if self.stays else self._all():
            self.hooked.add(name)
            # Called in backward, where nothing of ours may fail: nothing but a set's own method.
            mark = lambda _, name=name: self.reached.add(name)  # noqa: E731
            self._handles.append(p.register_post_accumulate_grad_hook(mark))

    def _all(self) -> list[tuple[str, Any]]:
        return [each for every in self.watched.values() for each in every]

    def _hidden(self) -> list[tuple[str, Any]]:
        """Those whose gradient says nothing: it is there beforehand, or a hook may take it away."""
        return [
            (name, p)
            for every in self.watched.values()
            for name, p in every
            if p.grad is not None or p._backward_hooks or p._post_accumulate_grad_hooks
        ]

    def after(self) -> Gradients | None:
        """The end of a window: what was reached; None if it was not watched."""
        self.steps += 1
        if not self._on:
            self.kinds.clear()
            return None
        trainable: dict[str, int] = {}
        unreached: dict[str, tuple[str, ...]] = {}
        for kind, every in self.watched.items():
            number, left = self._judged(every)
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

    def _judged(self, every: list[tuple[str, Any]]) -> tuple[int, tuple[str, ...]]:
        """Of one kind's: how many train, and the names of those that no gradient reached."""
        hooked = self.hooked
        maybe = [each for each in every if each[1].grad is None or each[0] in hooked]
        still = [(name, p) for name, p in maybe if p.requires_grad]  # the rest: frozen since then
        left = tuple(name for name, p in still if not self._reached(name, p))
        return len(every) - len(maybe) + len(still), left

    def _reached(self, name: str, parameter: Any) -> bool:
        """Whether a gradient came to one that has none now, or whose gradient says nothing."""
        if name in self.hooked:
            return name in self.reached
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
