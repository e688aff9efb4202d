"""The reference of a training loop: nothing wraps the model, and what the script steps with is each
rank's own gradient, averaged over all ranks. No code of a wrapper takes part.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Seen = Callable[[str, Mapping[str, Any]], None]


def install(seen: Seen) -> None:
    """In the place of every wrapper, from now on.

    seen: hears which wrapper was asked for, with its configuration.
    """
    _ddp(seen)
    _fsdp2(seen)
    _accelerate(seen)
    _deepspeed(seen)
    _no_checkpoints()


def average(parameters: Iterable[Any]) -> None:
    """Each parameter's gradient over all ranks; one that a rank does not have counts as zero."""
    import torch
    import torch.distributed as dist

    if not dist.is_initialized() or dist.get_world_size() == 1:
        return
    kept = [each for each in parameters if each.requires_grad]
    parts = [each.grad if each.grad is not None else torch.zeros_like(each) for each in kept]
    whole = torch.cat([part.detach().reshape(-1).float() for part in parts])
    dist.all_reduce(whole)
    whole /= dist.get_world_size()
    for each, part in zip(kept, whole.split([each.numel() for each in kept]), strict=True):
        each.grad = part.reshape(each.shape).to(each.dtype)


def _same_begin(module: Any) -> None:
    """The first rank's weights, as a wrapper hands them out."""
    import torch.distributed as dist

    if dist.is_initialized() and dist.get_world_size() > 1:
        for each in (*module.parameters(), *module.buffers()):
            dist.broadcast(each.data, 0)


def _ddp(seen: Seen) -> None:
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel as Ddp

    def made(self: Any, module: Any, *_: Any, **__: Any) -> None:
        nn.Module.__init__(self)
        self.module = module
        self.require_backward_grad_sync = True
        seen("ddp", {})
        _same_begin(module)

    Ddp.__init__ = made  # type: ignore[method-assign]
    Ddp.forward = lambda self, *args, **named: self.module(*args, **named)  # type: ignore[method-assign]
    for name in ("no_sync", "join"):
        setattr(Ddp, name, lambda *_, **__: contextlib.nullcontext())
    for name in ("_set_static_graph", "register_comm_hook"):
        setattr(Ddp, name, lambda *_, **__: None)
    Ddp.train = nn.Module.train  # type: ignore[method-assign]


def sharded_by(function: Any) -> None:
    """``fully_shard``, wherever it is imported from."""
    for place in ("fsdp", "_composable.fsdp"):
        with contextlib.suppress(ImportError):
            found = importlib.import_module(f"torch.distributed.{place}")
            if hasattr(found, "fully_shard"):
                found.fully_shard = function  # type: ignore[attr-defined]


def _fsdp2(seen: Seen) -> None:
    from torch import nn

    def left(module: Any, *_: Any, **__: Any) -> Any:
        if not isinstance(module, (list, tuple)):
            seen("fsdp2", {})
        return module

    sharded_by(left)
    for name in ("set_requires_gradient_sync", "set_is_last_backward", "reshard", "unshard",
                 "set_reshard_after_backward", "set_modules_to_forward_prefetch",
                 "set_modules_to_backward_prefetch"):  # fmt: skip
        if not hasattr(nn.Module, name):
            setattr(nn.Module, name, lambda *_, **__: None)


def _accelerate(seen: Seen) -> None:
    import accelerate

    _no_launchers_wrapper()
    own = accelerate.Accelerator.__init__

    def made(self: Any, *args: Any, **named: Any) -> None:
        plugin = named.pop("deepspeed_plugin", None)
        if plugin is not None:
            first = next(iter(plugin.values())) if isinstance(plugin, dict) else plugin
            seen("deepspeed", dict(first.deepspeed_config))
        if (plugin := named.pop("fsdp_plugin", None)) is not None:
            seen("fsdp2" if getattr(plugin, "fsdp_version", 1) == 2 else "fsdp", {})
        _no_launchers_wrapper()  # a plugin that is made sets them anew
        own(self, *args, **named)

    accelerate.Accelerator.__init__ = made  # type: ignore[method-assign]


def _no_launchers_wrapper() -> None:
    """What accelerate is told by variables."""
    for name in list(os.environ):
        if name.startswith(("ACCELERATE_USE_", "FSDP_", "ACCELERATE_DEEPSPEED_")):
            del os.environ[name]


def _deepspeed(seen: Seen) -> None:
    try:
        import deepspeed
        from transformers.integrations import deepspeed as integrated
    except ImportError:
        return

    def made(*args: Any, **named: Any) -> Any:
        asked = initialize_arguments(args, named)
        seen("deepspeed", asked["config"])
        _same_begin(asked["model"])
        engine = _engine()(asked)
        return engine, engine.optimizer, engine.loader, asked["lr_scheduler"]

    deepspeed.initialize = made
    deepspeed.zero.Init = lambda *_, **__: contextlib.nullcontext()
    deepspeed.zero.GatheredParameters = lambda *_, **__: contextlib.nullcontext()
    integrated.set_hf_deepspeed_config = lambda *_: None


def initialize_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Those of ``deepspeed.initialize`` by name, with the whole configuration as "config"."""
    import json

    names = ("args", "model", "optimizer", "model_parameters", "training_data", "lr_scheduler")
    asked = {**dict.fromkeys(names), **dict(zip(names, args, strict=False)), **named}
    config = asked.get("config") or asked.pop("config_params", None)
    config = config or getattr(asked["args"], "deepspeed_config", None) or {}
    if not isinstance(config, Mapping):
        with open(config, encoding="utf-8") as file:
            config = json.load(file)
    return {**asked, "config": dict(config)}


def optimizer_of(asked: Mapping[str, Any]) -> Any:
    """In the place of the one that DeepSpeed would make by its configuration."""
    import torch

    held = asked["model_parameters"] or asked["model"].parameters()
    kept = [each for each in held if isinstance(each, dict) or each.requires_grad]
    return torch.optim.SGD(kept, lr=0.1)


def _engine() -> Any:
    from torch import nn
    from torch.utils.data import DataLoader, DistributedSampler

    class Engine(nn.Module):
        """What a loop asks of DeepSpeed's engine."""

        def __init__(self, asked: Mapping[str, Any]) -> None:
            super().__init__()
            import torch

            self.module, self.config = asked["model"], asked["config"]
            self.lr_scheduler = asked["lr_scheduler"]
            self.optimizer = asked["optimizer"] or optimizer_of(asked)
            self.micro_steps = self.global_steps = 0
            self.device, self.local_rank = torch.device("cpu"), 0
            self.loader = None
            if (rows := asked["training_data"]) is not None:
                together = torch.distributed.is_initialized()
                self.loader = DataLoader(
                    rows, self.train_micro_batch_size_per_gpu(),
                    sampler=DistributedSampler(rows) if together else None,
                    collate_fn=asked.get("collate_fn"),
                )  # fmt: skip

        def forward(self, *args: Any, **named: Any) -> Any:
            return self.module(*args, **named)

        def gradient_accumulation_steps(self) -> int:
            return int(self.config.get("gradient_accumulation_steps", 1))

        def train_micro_batch_size_per_gpu(self) -> int:
            return int(self.config.get("train_micro_batch_size_per_gpu", 1))

        def is_gradient_accumulation_boundary(self) -> bool:
            return (self.micro_steps + 1) % self.gradient_accumulation_steps() == 0

        def backward(self, loss: Any, *_: Any, **__: Any) -> Any:
            (loss / self.gradient_accumulation_steps()).backward()
            return loss

        def step(self, *_: Any, **__: Any) -> None:
            if self.is_gradient_accumulation_boundary():
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.global_steps += 1
                if self.lr_scheduler is not None:
                    self.lr_scheduler.step()
            self.micro_steps += 1

        def no_sync(self) -> Any:
            return contextlib.nullcontext()

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("module"), name)

    return Engine


def _no_checkpoints() -> None:
    """A script's own calls of ``checkpoint`` compute at once."""
    from torch.utils import checkpoint

    def now(function: Any, *args: Any, **named: Any) -> Any:
        for name in ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check",
                     "debug", "early_stop"):  # fmt: skip
            named.pop(name, None)
        return function(*args, **named)

    checkpoint.checkpoint = now
