"""What a training loop of a user's own asks of GPUs, answered on a CPU in float32.

A Trainer asks for devices, dtypes and worker processes by its arguments; a loop asks torch itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

Limit = Callable[[str], None]
_GPUS = ("cuda", "npu", "xpu", "hpu", "mps")
_MAKERS = ("tensor", "as_tensor", "zeros", "ones", "full", "empty", "arange", "linspace", "eye",
           "rand", "randn", "randint", "randperm", "zeros_like", "ones_like", "full_like",
           "empty_like", "rand_like", "randn_like", "Generator", "load")  # fmt: skip
_COUNTS = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
           "current_device")  # fmt: skip
_NOTHING = ("synchronize", "reset_peak_memory_stats", "manual_seed", "ipc_collect")
_QUIET = {"WANDB_MODE": "disabled", "COMET_MODE": "disabled", "TOKENIZERS_PARALLELISM": "false",
          "ACCELERATE_MIXED_PRECISION": "no", "OMP_NUM_THREADS": "1"}  # fmt: skip


def answers(environ: Any, ranks: int, limit: Limit) -> None:
    """From now on, in this process. environ: ``os.environ``; ranks: of this machine."""
    environ.update(_QUIET)
    _tensors()
    _cuda(ranks)
    _numbers(limit)
    _mesh()


def _tensors() -> None:
    import torch
    from torch.utils import _device

    _device._device_constructors()  # it keeps the functions of its first call: those of torch
    for name in ("to", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"):
        setattr(torch.Tensor, name, _here(getattr(torch.Tensor, name)))
    for name in _MAKERS:
        own = getattr(torch, name)
        setattr(torch, name, _here(own) if callable(own) and not isinstance(own, type) else own)
    for name in ("half", "bfloat16"):
        setattr(torch.Tensor, name, lambda tensor, *_, **__: tensor.float())


def _here(own: Any) -> Any:
    """The same function, on this device and without numbers of 16 bits."""

    @functools.wraps(own)
    def made(*args: Any, **named: Any) -> Any:
        args = tuple(_answered(each, at > 0) for at, each in enumerate(args))
        for name in ("device", "map_location"):
            if isinstance(named.get(name), int):
                named[name] = "cpu"
        return own(*args, **{name: _answered(each, False) for name, each in named.items()})

    if own.__name__ != "to":
        return made

    @functools.wraps(own)
    def moved(tensor: Any, *args: Any, **named: Any) -> Any:
        if args and type(args[0]) is int:
            args = ("cpu", *args[1:])
        return made(tensor, *args, **named)

    return moved


def _answered(value: Any, text: bool) -> Any:
    import torch

    if isinstance(value, torch.dtype):
        return torch.float32 if value in (torch.bfloat16, torch.float16) else value
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type in _GPUS else value
    return "cpu" if isinstance(value, str) and value.partition(":")[0] in _GPUS else value


def _cuda(ranks: int) -> None:
    import torch

    for name in _NOTHING:
        setattr(torch.cuda, name, lambda *_, **__: None)
    for name in _COUNTS:
        setattr(torch.cuda, name, lambda *_, **__: 0)
    torch.cuda.device_count = lambda: ranks
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    torch.cuda.get_device_name = lambda *_: "CPU"


def _numbers(limit: Limit) -> None:
    """No autocast, no compiler, no clipping."""
    import torch

    own, default = torch.autocast.__init__, torch.set_default_dtype

    def plain(self: Any, *_: Any, **__: Any) -> None:
        own(self, "cpu", dtype=torch.bfloat16, enabled=False)

    torch.autocast.__init__ = plain  # type: ignore[method-assign]
    torch.set_default_dtype = lambda kind: default(_answered(kind, False))

    def compiled(model: Any = None, *_: Any, **__: Any) -> Any:
        limit("torch.compile: left out")
        return model if model is not None else lambda function: function

    torch.compile = compiled
    torch.nn.Module.compile = lambda *_, **__: limit("torch.compile: left out")
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        clip = getattr(torch.nn.utils, name)

        @functools.wraps(clip)
        def clipped(
            parameters: Any, most: Any = 0, *args: Any, _own: Any = clip, **named: Any
        ) -> Any:
            for word in ("max_norm", "clip_value"):
                named.pop(word, None)
            return _own(parameters, float("inf"), *args, **named)

        setattr(torch.nn.utils, name, clipped)


def _mesh() -> None:
    import torch.distributed as dist
    from torch.distributed import device_mesh

    own, barrier = device_mesh.init_device_mesh, dist.barrier

    @functools.wraps(own)
    def made(device_type: str, *args: Any, **named: Any) -> Any:
        return own(_answered(device_type, True), *args, **named)

    device_mesh.init_device_mesh = dist.init_device_mesh = made

    @functools.wraps(barrier)
    def waited(*args: Any, **named: Any) -> Any:
        named.pop("device_ids", None)
        return barrier(*args, **named)

    dist.barrier = waited


def loader_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a ``DataLoader`` that one process without pinned memory can do."""
    left = ("num_workers", "pin_memory", "pin_memory_device", "prefetch_factor", "worker_init_fn",
            "persistent_workers", "multiprocessing_context", "timeout")  # fmt: skip
    return {name: value for name, value in given.items() if name not in left}
