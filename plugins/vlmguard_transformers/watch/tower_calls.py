"""How often a tower runs in one step: seen in the first steps, where nothing could tell before."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from vlmguard_torch.layout.towers import plain
from vlmguard_torch.module_calls import ForwardHook, Hooked

FIRST_STEPS = 3


class Calls(Hooked):
    """Counts the calls of towers over the first steps. Recomputation calls blocks, not towers."""

    def __init__(self, model: Any, paths: Iterable[str]) -> None:
        wanted = set(paths)
        self.calls: dict[str, int] = {}
        self.steps = 0
        self._handles = [
            ForwardHook("counting calls of towers", partial(self._count, plain(name))).on(module)
            for name, module in model.named_modules()
            if plain(name) in wanted
        ]

    def _count(self, name: str, *_: Any) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1

    def step(self) -> int:
        """A step is over: the most calls of one tower in it. Takes its hooks off in time."""
        most = max(self.calls.values(), default=0)
        self.calls.clear()
        self.steps += 1
        if self.steps >= FIRST_STEPS:
            self.close()
        return most
