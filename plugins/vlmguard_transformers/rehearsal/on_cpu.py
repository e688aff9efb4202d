"""What a training loop of a user's own asks of GPUs, answered on a CPU in float32.

A Trainer asks for devices, dtypes and worker processes by its arguments; a loop asks torch itself.
"""

from __future__ import annotations

import functools
from typing import Any

from vlmguard_transformers.rehearsal import machine
from vlmguard_transformers.rehearsal.machine import Limit

_COUNTS = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
_QUIET = {"WANDB_MODE": "disabled", "COMET_MODE": "disabled", "TOKENIZERS_PARALLELISM": "false",
          "ACCELERATE_MIXED_PRECISION": "no", "OMP_NUM_THREADS": "1"}  # fmt: skip


def answers(environ: Any, limit: Limit) -> None:
    """From now on, in this process. environ: ``os.environ``."""
    environ.update(_QUIET)
    _cuda()
    _numbers(limit)
    _mesh()


def _cuda() -> None:
    import torch

    for name in _COUNTS:
        setattr(torch.cuda, name, lambda *_, **__: 0)
    torch.cuda.manual_seed = lambda *_, **__: None


def _numbers(limit: Limit) -> None:
    """No autocast, no compiler, no clipping."""
    import torch

    for name in ("half", "bfloat16"):
        setattr(torch.Tensor, name, lambda tensor, *_, **__: tensor.float())
    own, default = torch.autocast.__init__, torch.set_default_dtype

    def plain(self: Any, *_: Any, **__: Any) -> None:
        own(self, "cpu", dtype=torch.bfloat16, enabled=False)

    torch.autocast.__init__ = plain  # type: ignore[method-assign]
    torch.set_default_dtype = lambda kind: default(machine.whole(kind))

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
    def made(_: str, *args: Any, **named: Any) -> Any:
        return own("cpu", *args, **named)

    device_mesh.init_device_mesh = dist.init_device_mesh = made

    @functools.wraps(barrier)
    def waited(*args: Any, **named: Any) -> Any:
        named.pop("device_ids", None)
        return barrier(*args, **named)

    dist.barrier = waited
