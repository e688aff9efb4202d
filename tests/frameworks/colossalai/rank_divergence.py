"""Keeps the cases of one process apart, as if each had a process of its own; and looks closely.

The guard says each thing once a process, and ends a rank a few seconds after it stopped a run:
both are taken back between cases.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch


@contextlib.contextmanager
def case(case: dict[str, Any], folder: Path, out: dict[str, Any]) -> Iterator[None]:
    """Settings, findings and an injected fault that are this case's alone."""
    before = dict(os.environ)
    os.environ.update(case["env"])
    if "VLMGUARD_REPORT" in os.environ:
        os.environ["VLMGUARD_REPORT"] = str(folder / f"{case['name']}.jsonl")
    _forget()
    undo = _raise_in(case["raise_in"], out) if case["raise_in"] else None
    try:
        yield
    finally:
        if undo is not None:
            undo()
        os.environ.clear()
        os.environ.update(before)


def _forget() -> None:
    """A case begins as a process does: no run, no settings resolved, nothing said."""
    if "vlmguard.guard" not in sys.modules:
        return
    from vlmguard import guard
    from vlmguard.core import runstate, settings
    from vlmguard.runtime import faults

    for state in reversed(runstate.opens()):
        guard.close(state)
    faults._said.clear()
    os.environ.pop(settings.RESOLVED, None)
    settings._load.cache_clear()


def _raise_in(target: str, out: dict[str, Any]) -> Any:
    """``module:Class.function`` raises from now on; how often it was called is written down."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for part in parents:
        owner = getattr(owner, part)
    original = vars(owner)[name]
    out["raised"] = 0

    def broken(*args: Any, **kwargs: Any) -> Any:
        out["raised"] += 1
        raise RuntimeError(f"injected into {target}")

    kind = type(original)
    setattr(owner, name, kind(broken) if kind in (property, staticmethod, classmethod) else broken)
    if hasattr(original, "attrname"):  # a cached_property
        setattr(owner, name, property(broken))
    return lambda: setattr(owner, name, original)


def spy(booster: Any, model: torch.nn.Module, optimizer: Any) -> list[dict[str, str]]:
    """Digests now, and once more when the plug-in is about to wrap: after the guard's own work.

    Some gradients and some optimizer state are there already, as in a run that is resumed.
    """
    for number, parameter in enumerate(model.parameters()):
        if number % 2:
            parameter.grad = torch.full_like(parameter, 0.25)
        optimizer.state[parameter]["test"] = torch.full((3,), float(number))
    seen = [_digests(model, optimizer)]
    configure = booster.plugin.configure

    def spied(*args: Any, **kwargs: Any) -> Any:
        seen.append(_digests(model, optimizer))
        for parameter in model.parameters():
            parameter.grad = None
        optimizer.state.clear()
        return configure(*args, **kwargs)

    booster.plugin.configure = spied
    return seen


def _digests(model: torch.nn.Module, optimizer: Any) -> dict[str, str]:
    import numpy

    parts = {
        "parameters": [(n, _bytes(p), p.requires_grad) for n, p in model.named_parameters()],
        "gradients": [(n, _bytes(p.grad)) for n, p in model.named_parameters()],
        "which gradients": [id(p.grad) if p.grad is not None else 0 for p in model.parameters()],
        "buffers": [(n, _bytes(b)) for n, b in model.named_buffers()],
        "optimizer": [_bytes(state["test"]) for state in optimizer.state.values()],
        "groups": str([_without_params(group) for group in optimizer.param_groups]),
        "python": random.getstate(),
        "numpy": str(numpy.random.get_state()),
        "torch": _bytes(torch.get_rng_state()),
        "modes": [module.training for module in model.modules()],
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
    }  # fmt: skip
    return {name: hashlib.sha256(pickle.dumps(part)).hexdigest() for name, part in parts.items()}


def _bytes(tensor: torch.Tensor | None) -> bytes:
    return b"" if tensor is None else tensor.detach().contiguous().numpy().tobytes()


def _without_params(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key != "params"}
