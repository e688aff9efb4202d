"""Captures what a `transformers.Trainer` does to the weights, on every rank."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import Any

import vlmguard_imports


def install() -> None:
    """Wrap the Trainer's training loop as soon as transformers.trainer exists."""
    vlmguard_imports.after("transformers.trainer", _wrap)


def _wrap(module: ModuleType) -> None:
    """Inside ``train``, so that what the guard freezes there is frozen before we look."""
    loop = module.Trainer._inner_training_loop

    @functools.wraps(loop)
    def captured(self: Any, *args: Any, **kwargs: Any) -> Any:
        if os.environ.get("VLMGUARD_TEST_SAME_ADAPTERS"):
            _same_adapters(self.model)
        initial = _weights(self.model)
        losses: list[float] = []
        with _recorded(self, losses):
            result = loop(self, *args, **kwargs)
        _write(self, initial, losses)
        return result

    module.Trainer._inner_training_loop = captured


@contextlib.contextmanager
def _recorded(trainer: Any, losses: list[float]) -> Iterator[None]:
    """Keep each step's loss as this rank computed it: the log's is a rounded mean."""
    step = trainer.training_step

    def training_step(*args: Any, **kwargs: Any) -> Any:
        loss = step(*args, **kwargs)
        losses.append(float(loss))
        return loss

    trainer.training_step = training_step
    try:
        yield
    finally:
        del trainer.training_step


def _same_adapters(model: Any) -> None:
    """LoRA draws its first weights otherwise under ZeRO-3: here each gets what its name says."""
    import zlib

    import torch

    for name, parameter in model.named_parameters():
        if ".lora_A." in name or ".lora_embedding_B." in name:  # LoRA of an embedding draws B
            with _whole(parameter, write=True):
                seed = torch.Generator().manual_seed(zlib.crc32(name.encode()))
                drawn = torch.randn(parameter.shape, generator=seed) * parameter.shape[-1] ** -0.5
                parameter.data.copy_(drawn)


def _weights(model: Any, names: Collection[str] | None = None) -> dict[str, Any]:
    """Parameters that train, or those named: callbacks may have frozen some since (LISA)."""
    from vlmguard_capture import copy, plain

    held = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad if names is None else plain(name) in names:
            with _whole(parameter):
                held[plain(name)] = copy(_full(parameter))
    return held


def _digests(model: Any) -> dict[str, str]:
    from vlmguard_capture import digest, plain

    made = {}
    for name, parameter in model.named_parameters():
        with _whole(parameter):
            made[plain(name)] = digest(_full(parameter))
    return made


@contextlib.contextmanager
def _whole(parameter: Any, write: bool = False) -> Iterator[None]:
    """The parameter complete on this rank; a collective under ZeRO-3, in the same order on all."""
    if not hasattr(parameter, "ds_id"):
        yield
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0 if write else None):
        yield


def _full(parameter: Any) -> Any:
    """FSDP2 keeps a DTensor: a collective, in the same order on all."""
    data = parameter.data
    return data.full_tensor() if hasattr(data, "full_tensor") else data


def wrapper(outer: Any, inner: Any) -> str:
    """What stands around the model; FSDP2 changes the model's own class."""
    kind = type(outer).__name__
    if kind == "DeepSpeedEngine":
        return f"{kind}/zero{outer.zero_optimization_stage()}"
    if kind.startswith("FSDP"):
        return "FSDP2"
    return "none" if outer is inner else kind


def _clipping(outer: Any) -> dict[str, float]:
    """What DeepSpeed clips at, its default counted in: releases from 0.19.3 on clip at 1.0."""
    value = getattr(outer, "gradient_clipping", None)
    return {"gradient_clipping": float(value())} if callable(value) else {}


def _write(trainer: Any, initial: dict[str, Any], losses: list[float]) -> None:
    import torch
    from vlmguard_capture import Rank, write

    grouped = torch.distributed.is_initialized()
    rank = Rank(
        rank=torch.distributed.get_rank() if grouped else int(os.environ.get("RANK", "0")),
        world=torch.distributed.get_world_size() if grouped else 1,
        wrapped=wrapper(trainer.model_wrapped, trainer.model),
        initial=initial,
        final=_weights(trainer.model, initial.keys()),
        losses=losses,
        digests=_digests(trainer.model),
        log=[dict(entry) for entry in trainer.state.log_history],
        extra=_clipping(trainer.model_wrapped),
    )
    write(os.environ["VLMGUARD_TEST_CAPTURE"], rank)
