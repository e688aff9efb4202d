"""How a model is wrapped, stepped and read back: one module a wrapper, each with ``wrap``.

``wrap(model, strategy, accumulation)`` gives a `Wrapped`. Buckets are scaled down to the tiny
models, or several verdicts would only be seen on large ones.
"""

from __future__ import annotations

from typing import Any, Protocol

RATE = 0.1
"""Learning rate of plain SGD: updates are gradients, so an error in one is seen in the other."""


class Wrapped(Protocol):
    """A model in its wrapper."""

    def forward(self, batch: Any, last: bool) -> Any:
        """The loss; last: whether this micro-step completes the step."""

    def backward(self, loss: Any, last: bool) -> None:
        """Its gradients, divided by the number of micro-steps."""

    def step(self) -> None:
        """The optimizer's, after every micro-step of a step or after each (DeepSpeed counts)."""

    def weights(self) -> dict[str, Any]:
        """Whole weights by the plain model's names, as numpy arrays."""


def wrap(model: Any, strategy: str, accumulation: int) -> Wrapped:
    """The model under ``strategy``; a process group has to be there."""
    if strategy.startswith("ddp"):
        from tools.lab.strategies import ddp

        return ddp.DDP(model, strategy, accumulation)
    if strategy.startswith("zero"):
        from tools.lab.strategies import zero

        return zero.Zero(model, strategy, accumulation)
    from tools.lab.strategies import fsdp2

    return fsdp2.FSDP2(model, accumulation)
