"""How often a step calls the model before one backward. A loss of the user's own cannot be read
beforehand: its forwards are counted in the first training step, whose optimizer has yet to move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vlmguard import guard, registry
from vlmguard.core.runstate import RunState
from vlmguard_torch.module_calls import ForwardHook

KEY = "forwards"


class Count:
    """Forwards with a gradient since counting began."""

    def __init__(self, model: Any) -> None:
        self.number, self.over = 0, False
        self._handle = ForwardHook("counting forwards", self._forward).on(model)

    def _forward(self, module: Any, args: Any, kwargs: Any) -> None:
        import torch

        if module.training and torch.is_grad_enabled() and not self.over:
            self.number += 1

    def close(self) -> None:
        """Count no more."""
        self._handle.remove()


def start(model: Any, state: RunState) -> None:
    """Count until `judge`."""
    count = state.kept[KEY] = Count(model)
    state.at_close(count.close)


def accumulates(state: RunState, model: Any) -> None:
    """Before a forward of a loop whose steps may have several backwards: once one has run, forwards
    belong to another. The hook stays on: torch may be going through the model's hooks."""
    count = state.kept.get(KEY)
    if count is not None and count.number:
        count.over |= any(p.grad is not None for p in model.parameters())


def judge(state: RunState) -> None:
    """Judge the run with the forwards that its first step made. Raises `Stop` where that many are
    wrong: what is wrapped already cannot be mended."""
    count = state.kept.pop(KEY, None)
    if count is None or state.run is None:
        return
    count.close()
    if count.number <= max(1, state.run.forwards):
        return
    before = {finding.code for finding in registry.get().pre_wrap(state.run)}
    state.run = replace(state.run, forwards=count.number)
    found = registry.get().pre_wrap(state.run)
    guard.judge((finding for finding in found if finding.code not in before), state)
