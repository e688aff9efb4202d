"""One forward and backward on a batch before training, that leaves no trace."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from vlmguard_transformers.trainer import kind_of, plain


class CannotTry(Exception):
    """Why there can be no dry step."""


@dataclass(frozen=True)
class Tower:
    """Trainable parameters of one tower, those that got a gradient, and its norm."""

    kind: str
    trainable: int
    reached: int
    norm: float
    without: tuple[str, ...]


def lazy(model: Any) -> bool:
    """Whether a parameter is not there yet (`LazyInitContext`)."""
    return any("LazyTensor" in {b.__name__ for b in type(p).__mro__} for p in model.parameters())


def run(
    model: Any, batch: Mapping[str, Any], paths: Mapping[str, tuple[str, ...]]
) -> tuple[Tower, ...]:
    """Try ``batch`` on the plain model; parameters, buffers, gradients, modes and random state
    are afterwards what they were, bit for bit. The optimizer is not touched.

    Raises:
        CannotTry: the model is lazily initialised, or gives no loss.
    """
    if lazy(model):
        raise CannotTry("the model is lazily initialised: its weights are not there before boost")
    with _kept(model):
        device = next(model.parameters()).device
        moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
        with torch.enable_grad():
            out = model(**moved)
            loss = out["loss"] if isinstance(out, Mapping) else getattr(out, "loss", None)
            if not isinstance(loss, torch.Tensor):
                raise CannotTry("the model gives no loss for this batch")
            loss.backward()
        return _towers(model, paths)


def _towers(model: Any, paths: Mapping[str, tuple[str, ...]]) -> tuple[Tower, ...]:
    found: dict[str, list[tuple[str, Any]]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            bare = plain(name)
            found.setdefault(kind_of(bare, paths), []).append((bare, parameter.grad))
    towers = []
    for kind, pairs in found.items():
        norms = [grad.detach().float().norm() for _, grad in pairs if grad is not None]
        norm = float(torch.stack(norms).norm()) if norms else 0.0
        without = tuple(name for name, grad in pairs if grad is None)
        towers.append(Tower(kind, len(pairs), len(norms), norm, without))
    return tuple(towers)


@contextmanager
def _kept(model: Any) -> Iterator[None]:
    parameters = list(model.parameters())
    gradients = [p.grad for p in parameters]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    modes = [(m, m.training) for m in model.modules()]
    python, host, accelerators = random.getstate(), torch.get_rng_state(), _accelerators()
    numpy = _numpy()
    state = numpy.random.get_state() if numpy else None
    for parameter in parameters:
        parameter.grad = None
    try:
        model.train()
        yield
    finally:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for module, training in modes:
            module.training = training
        random.setstate(python)
        torch.set_rng_state(host)
        if accelerators is not None:
            torch.cuda.set_rng_state_all(accelerators)
        if numpy:
            numpy.random.set_state(state)


def _accelerators() -> list[torch.Tensor] | None:
    return torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy
