"""Which trainable parameters a backward reached, without reading a tensor or waiting for a device.

``p.grad is None`` means nothing under ZeRO: hooks on the parameters tell. They are on for the first
steps and for the first step of every new kind of batch, and off the rest of the time.
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
    ) -> None:
        self.untrained = untrained
        self.parameters = {plain(name): p for name, p in model.named_parameters()}
        self.kind = {name: kind_of(name, paths) for name in self.parameters}
        self.watched: list[str] = []
        self.reached: set[str] = set()
        self.trained: set[str] = set()  # towers that a gradient reached in an earlier step
        self.kinds: set[str] = set()
        self.seen: set[tuple[str, ...]] = set()
        self.steps = 0
        self._handles: list[Any] = []

    def before(self, kinds: tuple[str, ...]) -> None:
        """Put the hooks on if this step is one to watch."""
        self.kinds.update(kinds)
        if self._handles or (self.steps >= FIRST_STEPS and kinds in self.seen):
            return
        self.seen.add(kinds)
        self.watched = [name for name, p in self.parameters.items() if p.requires_grad]
        for name in self.watched:
            # Called in backward, where nothing of ours may fail: nothing but a set's own method.
            mark = lambda _, name=name: self.reached.add(name)  # noqa: E731
            hook = self.parameters[name].register_post_accumulate_grad_hook(mark)
            self._handles.append(hook)

    def after(self) -> Gradients | None:
        """Take the hooks off at the end of a window; None if it was not watched."""
        self.steps += 1
        if not self._handles:
            self.kinds.clear()
            return None
        unreached: dict[str, list[str]] = {}
        trainable: dict[str, int] = {}
        reached = set()
        for name in self.watched:
            if not self.parameters[name].requires_grad:
                continue  # frozen since
            kind = self.kind[name]
            trainable[kind] = trainable.get(kind, 0) + 1
            if name in self.reached:
                reached.add(kind)
            else:
                unreached.setdefault(kind, []).append(name)
        by_design = tuple(
            name
            for names in unreached.values()
            for name in names
            if any(part in name for part in self.untrained)
        )
        stale = tuple(sorted((self.trained & trainable.keys()) - reached))
        self.trained |= reached
        answer = Gradients(
            {kind: tuple(names) for kind, names in unreached.items()},
            trainable,
            tuple(sorted(self.kinds)),
            by_design,
            stale,
        )
        self.close()
        return answer

    def close(self) -> None:
        """Take every hook off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.reached.clear()
        self.kinds.clear()
