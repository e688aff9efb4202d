"""What one row does in a model: which modules run, how often, in which order; what it trains."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Trace:
    """Attributes:
    loss: as a number.
    calls: path of a module to the number of its calls; modules never called are not in it.
    order: paths in the order of their first calls.
    reached: names of the parameters whose gradient is not None after backward, zero or not: that
        is what DDP and DeepSpeed go by.
    counts_items: whether the loss is another one where ``num_items_in_batch`` is passed; None where
        the model computes none itself or does not take it.
    sequence: paths of the modules that hold weights themselves, as they were called, repeats too.
    gradients: of those reached, in the copy's dtype, where they were asked for.
    """

    loss: float
    calls: Mapping[str, int]
    order: tuple[str, ...]
    reached: frozenset[str]
    counts_items: bool | None = None
    sequence: tuple[str, ...] = field(default=(), repr=False)
    gradients: Mapping[str, torch.Tensor] = field(default_factory=dict, repr=False, compare=False)


class TooLong(RuntimeError):
    """The time set for observing is over."""


@dataclass(frozen=True)
class Limit:
    """Seconds of this thread's own work and of waiting: the first is nearly the same in every
    process, however busy the machine is, and so decides before the second."""

    work: float = float("inf")
    wall: float = float("inf")

    @staticmethod
    def of(work: float, wall: float) -> Limit:
        """So many seconds from now."""
        return Limit(time.thread_time() + work, time.monotonic() + wall)

    def check(self) -> None:
        """Raises TooLong once one of them is over."""
        if time.thread_time() > self.work:
            raise TooLong("the seconds of work set for observing are over")
        if time.monotonic() > self.wall:
            raise TooLong("the machine is too busy to observe on")


NO_LIMIT = Limit()


def trace(
    model: torch.nn.Module, row: Mapping[str, Any], limit: Limit, gradients: bool = False
) -> Trace:
    """Forward and backward of one row, seeded; leaves neither gradients nor hooks. ``gradients``:
    hand them over.

    Raises TooLong when the limit is reached, else whatever the model raises.
    """
    calls: Counter[str] = Counter()
    sequence: list[str] = []
    torch.default_generator.manual_seed(0)
    hooks = [
        module.register_forward_pre_hook(_counter(calls, path, limit, sequence, module))
        for path, module in model.named_modules()
        if path
    ]
    model.zero_grad(set_to_none=True)
    try:
        loss = loss_of(model(**row))
        loss.backward()
        names = model.named_parameters(remove_duplicate=False)
        found = {name: weight.grad for name, weight in names if weight.grad is not None}
    finally:
        for hook in hooks:
            hook.remove()
        model.zero_grad(set_to_none=True)
    kept = found if gradients else {}
    called = dict(calls), tuple(calls)
    return Trace(float(loss.detach()), *called, frozenset(found), None, tuple(sequence), kept)


def dropped(
    model: torch.nn.Module, rows: Iterable[tuple[Mapping[str, Any], Trace]], limit: Limit
) -> frozenset[str]:
    """Parameters that a row reaches, and reaches no more under reentrant checkpointing: a block
    hands no gradient to what it is given by keyword. Its inputs need one, as far as the model lets
    them be told so. Of a model that is checkpointed or cannot be, and of rows that do not run so,
    nothing is said."""
    enable = getattr(model, "gradient_checkpointing_enable", None)
    enable = getattr(model, "activation_checkpointing_enable", enable)
    if enable is None or getattr(model, "is_gradient_checkpointing", True):
        return frozenset()
    lost: set[str] = set()
    try:
        enable({"use_reentrant": True})
        with contextlib.suppress(Exception):
            model.enable_input_require_grads()  # type: ignore[operator]
        for row, plain in rows:
            lost |= plain.reached - trace(model, row, limit).reached
    except Exception:
        return frozenset()
    finally:
        model.gradient_checkpointing_disable()  # type: ignore[operator]
    return frozenset(lost)


def _counter(
    calls: Counter[str], path: str, limit: Limit, sequence: list[str], module: torch.nn.Module
) -> Any:
    holds = any(True for _ in module.parameters(recurse=False))

    def count(*_: Any) -> None:
        calls[path] += 1
        if holds:
            sequence.append(path)
        limit.check()

    return count


def loss_of(output: Any) -> torch.Tensor:
    """The output's own loss, else the sum of its first tensor that a gradient can leave."""
    loss = getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss.sum()
    for value in _values(output):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            return value.float().sum()
    raise TypeError("its output holds neither a loss nor a tensor with a gradient")


def loss_only(model: torch.nn.Module, row: Mapping[str, Any]) -> float:
    """The loss of a row, seeded as in `trace`."""
    torch.default_generator.manual_seed(0)
    return float(loss_of(model(**row)).detach())


ITEMS = "num_items_in_batch"
"""What a Hugging Face Trainer passes to a forward with ``**kwargs``: by how many tokens the sum of
their losses is to be divided."""


def counts_items(model: torch.nn.Module, row: Mapping[str, Any], loss: float) -> bool | None:
    """As in `Trace`; ``loss`` is the row's without it."""
    if "labels" not in row:
        return None
    try:
        with torch.no_grad():
            other = loss_only(model, {**row, ITEMS: torch.tensor(10**6)})
    except Exception:
        return None
    return None if math.isnan(other) or math.isnan(loss) else other != loss


def _values(output: Any) -> list[Any]:
    if isinstance(output, torch.Tensor):
        return [output]
    return list(output.values()) if isinstance(output, Mapping) else list(output)
