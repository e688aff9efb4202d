"""Builds and runs a model in the user's process as if nothing had been built or run.

Everything a model's construction reads or moves is set aside and put back in `finally`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch


@contextlib.contextmanager
def isolated_state(seed: int = 0) -> Iterator[None]:
    """On the CPU, in float32, seeded, alone, silent and unpartitioned; all as before afterwards."""
    with contextlib.ExitStack() as stack:
        for state in _SET_ASIDE:
            stack.enter_context(state())
        with seeded(seed):
            yield


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Tiny work on many threads, in every rank of a node at once, is only waiting. Left alone where
    training itself may be on the CPU: even the same number set again can change its last bits."""
    threads = torch.get_num_threads() if torch.cuda.is_initialized() else 1
    try:
        if threads > 1:
            torch.set_num_threads(1)
        yield
    finally:
        if threads > 1:
            torch.set_num_threads(threads)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Neither said nor remembered as said. Filters are put in place by hand: in a
    ``catch_warnings`` Python would forget what it has said once already."""
    once = ("warning_once", "info_once")
    kept = {name: vars(logging.Logger)[name] for name in once if name in vars(logging.Logger)}
    level, filters = logging.root.manager.disable, warnings.filters
    try:
        warnings.filters = [("ignore", None, Warning, None, 0)]
        logging.disable(logging.CRITICAL)
        for name in kept:
            setattr(logging.Logger, name, lambda *_, **__: None)
        yield
    finally:
        warnings.filters = filters
        logging.disable(level)
        for name, function in kept.items():
            setattr(logging.Logger, name, function)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What is drawn by Python, NumPy and torch on the CPU depends on ``seed`` alone, and no later
    draw on it. A device's generator is never touched."""
    restore = _random_states(set())
    try:
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(seed)
        yield
    finally:
        restore()


@contextlib.contextmanager
def _defaults() -> Iterator[None]:
    """Default dtype and device, gradient mode, inference mode, autocast."""
    dtype = torch.get_default_dtype()
    elsewhere = torch.get_default_device().type != "cpu"
    try:
        torch.set_default_dtype(torch.float32)
        with (
            torch.device("cpu") if elsewhere else contextlib.nullcontext(),  # slow: only if needed
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
        ):
            yield
    finally:
        torch.set_default_dtype(dtype)


@contextlib.contextmanager
def _no_zero_init() -> Iterator[None]:
    """An active ``zero.Init`` would partition every module that is built."""
    zero = sys.modules.get("deepspeed.runtime.zero.partition_parameters")
    outer: Any = getattr(zero, "top_level_context", None)
    active = outer is not None and getattr(outer, "patched", True)
    try:
        if active:
            zero.shutdown_init_context()  # type: ignore[union-attr]
        yield
    finally:
        if active:
            zero.restore_init_context()  # type: ignore[union-attr]


@contextlib.contextmanager
def unpartitioned() -> Iterator[None]:
    """transformers, told of ZeRO-3, would partition the model it builds. Only while it builds: a
    forward may ask whether DeepSpeed is on, and then runs a dummy image of its own."""
    ours = sys.modules.get("transformers.integrations.deepspeed")
    reference = getattr(ours, _REFERENCE, None)
    try:
        if reference is not None:
            setattr(ours, _REFERENCE, None)
        yield
    finally:
        if reference is not None:
            setattr(ours, _REFERENCE, reference)


_REFERENCE = "_hf_deepspeed_config_weak_ref"


def strategy() -> str:
    """What a forward may ask about the run: DeepSpeed and its stage, FSDP; for a cache's key."""
    ours = sys.modules.get("transformers.integrations.deepspeed")
    reference = getattr(ours, _REFERENCE, None)
    told = None if reference is None else reference()
    stage = told.is_zero3() if hasattr(told, "is_zero3") else None
    names = ("ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_FSDP")
    return f"{told is not None} {stage} {[os.environ.get(name) for name in names]}"


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """A model that would call a collective finds no process group: other ranks know nothing of
    this forward."""
    modules = [sys.modules.get("torch.distributed"), sys.modules.get(_C10D)]
    kept = [(part, part.is_initialized) for part in modules if hasattr(part, "is_initialized")]
    try:
        for part, _ in kept:
            part.is_initialized = _not_initialized  # type: ignore[union-attr]
        yield
    finally:
        for part, function in kept:
            part.is_initialized = function  # type: ignore[union-attr]


_C10D = "torch.distributed.distributed_c10d"


def _not_initialized() -> bool:
    return False


@contextlib.contextmanager
def _no_global_hooks() -> Iterator[None]:
    """Hooks that a profiler or a debugger put on every module see none of our calls."""
    module: Any = torch.nn.modules.module
    tables = [
        table
        for name, table in vars(module).items()
        if name.startswith("_global_") and name.endswith("hooks") and isinstance(table, dict)
    ]
    kept = [dict(table) for table in tables]
    try:
        for table in tables:
            table.clear()
        yield
    finally:
        for table, entries in zip(tables, kept, strict=True):
            table.clear()
            table.update(entries)


_SET_ASIDE = (
    _one_thread, _quiet, _defaults, _no_zero_init, _alone, _no_global_hooks,
)  # fmt: skip


@contextlib.contextmanager
def random_kept(model: Any) -> Iterator[None]:
    """Put back the random states of Python, numpy, torch and the accelerators that ``model`` is on
    (a look at any other would set up a context there)."""
    restore = _random_states({p.device for p in model.parameters()})
    try:
        yield
    finally:
        restore()


def _random_states(devices: set[torch.device]) -> Callable[[], None]:
    numpy = sys.modules.get("numpy")
    states: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (random.setstate, (random.getstate(),)),
        (torch.set_rng_state, (torch.get_rng_state(),)),
    ]
    if numpy is not None:
        states.append((numpy.random.set_state, (numpy.random.get_state(),)))
    for device in devices:
        own = getattr(torch, device.type, None)
        if device.type != "cpu" and hasattr(own, "get_rng_state"):
            where = () if device.type == "mps" else (device,)
            states.append((own.set_rng_state, (own.get_rng_state(*where), *where)))

    def restore() -> None:
        for setter, values in states:
            setter(*values)

    return restore
