"""Which trainable parameters a backward reached, without reading a tensor or waiting for a device.

``p.grad is None`` means nothing under ZeRO: hooks on the parameters tell. They are on for the first
steps and for the first step of every new kind of batch, and off the rest of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlmguard.core.facts import Gradients
from vlmguard_transformers.trainer import kind_of, plain

FIRST_STEPS = 3


def kinds_of(inputs: Any) -> tuple[str, ...]:
    """Kinds of input in a batch, by its keys; () for what is no mapping."""
    if not isinstance(inputs, Mapping):
        return ()
    found = set()
    for key in inputs:
        if isinstance(key, str) and "pixel_values" in key and inputs[key] is not None:
            found.add("video" if "video" in key else "image")
    return tuple(sorted(found)) or ("text",)


class Watch:
    """Coverage of one trainer's parameters, over one accumulation window at a time."""

    def __init__(
        self,
        model: Any,
        paths: Mapping[str, tuple[str, ...]],
        untrained: tuple[str, ...] = (),
    ) -> None:
        self.untrained = untrained
        self.parameters = {
            plain(name): p for name, p in model.named_parameters() if p.requires_grad
        }
        self.kind = {name: kind_of(name, paths) for name in self.parameters}
        self.reached: set[str] = set()
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
        for name, parameter in self.parameters.items():
            mark = self._marker(name)
            self._handles.append(parameter.register_post_accumulate_grad_hook(mark))

    def _marker(self, name: str) -> Any:
        def mark(_: Any) -> None:
            self.reached.add(name)

        return mark

    def after(self) -> Gradients | None:
        """Take the hooks off at the end of a window; None if it was not watched."""
        self.steps += 1
        if not self._handles:
            self.kinds.clear()
            return None
        unreached: dict[str, tuple[str, ...]] = {}
        trainable: dict[str, int] = {}
        for name, kind in self.kind.items():
            trainable[kind] = trainable.get(kind, 0) + 1
            if name not in self.reached:
                unreached[kind] = (*unreached.get(kind, ()), name)
        by_design = tuple(
            name
            for names in unreached.values()
            for name in names
            if any(part in name for part in self.untrained)
        )
        answer = Gradients(unreached, trainable, tuple(sorted(self.kinds)), by_design)
        self.close()
        return answer

    def close(self) -> None:
        """Take every hook off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.reached.clear()
        self.kinds.clear()
