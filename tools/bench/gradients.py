"""The gradient watch on 10,000 parameters."""

from __future__ import annotations

from typing import Any

import torch

from tools.bench import measure
from vlmguard import guard
from vlmguard.core import runstate, settings
from vlmguard.core.facts import Run
from vlmguard_torch.watch.gradients import Watch

PATHS = {"llm": ("tower",)}


class Many(torch.nn.Module):
    """So many parameters, all of which a backward reaches."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.ones(2) for _ in range(number))

    def forward(self) -> torch.Tensor:
        return torch.stack(list(self.weights))


class Model(torch.nn.Module):
    """Which are one tower's."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.tower = Many(number)

    def forward(self) -> torch.Tensor:
        return self.tower().sum()


class Step:
    """Forward and backward, watched or not, up to the optimizer's step."""

    def __init__(self, number: int, stays: bool) -> None:
        self.model = Model(number)
        self.stays = stays
        self.state = runstate.RunState(settings.get(), run=Run("transformers"))

    def spent(self, watched: bool) -> measure.Spent:
        """What a step takes, the watch's own making aside."""
        self.model.zero_grad(set_to_none=True)
        watch = Watch(self.model, PATHS, stays=self.stays) if watched else None
        found = measure.called(lambda: self._around(watch))
        if watch is not None:
            watch.close()
        return found

    def _around(self, watch: Watch | None) -> None:
        self.model().backward()
        gradients = watch.end() if watch is not None else None
        if gradients is not None and self.state.run is not None:
            guard.pre_step(self.state.run, gradients=gradients)


def watch(quick: bool) -> dict[str, Any]:
    """A watched step beside one that is not; the steps after, which are not watched."""
    number, many = measure.number(quick, 3, 60), 100 if quick else 10_000
    torch.set_num_threads(1)
    rows = []
    for stays, bar in ((True, 5.0), (False, None)):
        step = Step(many, stays)
        found = measure.pairs(lambda s=step: s.spent(True), lambda s=step: s.spent(False), number)
        how = "single or DDP" if stays else "under ZeRO, by hooks"
        rows.append(
            measure.more(f"a watched step of {many:,} parameters, {how}", found, "ms", bar).data()
        )
    after = Watch(step.model, {**PATHS, "vision": ("unused",)})
    step.model().backward()
    after.end()

    def steady() -> None:
        for _ in range(100):
            after.end()

    found = measure.pairs(
        lambda: measure.called(steady), lambda: measure.called(lambda: None), number
    )
    rows.append(measure.more("100 steps after those, in all", found, "µs", None).data())
    return {"rows": rows}
