"""Stand-ins for what a GPU machine has and these machines lack. Each does one thing, lazily."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import vlmguard_imports

_kept: list[Any] = []


def install() -> None:
    """Watch the imports; nothing happens in a process that needs none of them."""
    vlmguard_imports.before("torchvision", _torchvision_operators)
    vlmguard_imports.after("torch.cuda", _no_cuda_device_to_set)
    vlmguard_imports.after("torch.cpu", _no_memory_to_log)
    vlmguard_imports.after("deepspeed.runtime.zero.partition_parameters", _early_process_group)
    vlmguard_imports.after("accelerate.state", _fsdp_on_cpu)
    vlmguard_imports.after("deepspeed.comm.torch", _no_compiled_collectives)


def _torchvision_operators() -> None:
    """The PyPI wheel is a CUDA build: on CPU torch its library does not load, so its operators are
    never defined, yet its Python code registers meta implementations for these two."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)


def _no_cuda_device_to_set(cuda: ModuleType) -> None:
    """ms-swift 3.2.0 selects a CUDA device in every distributed run."""
    select = cuda.set_device

    def set_device(device: Any) -> None:
        if cuda.is_available():
            select(device)

    cuda.set_device = set_device


def _no_memory_to_log(cpu: ModuleType) -> None:
    """ms-swift 3.9 - 3.12 asks the device's module how much memory it reserved, in every log."""
    cpu.max_memory_reserved = lambda *_, **__: 0


def _early_process_group(partition: ModuleType) -> None:
    """With --use_cpu the process group comes after the model: ZeRO-3 would see one rank only."""
    start = partition.Init.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        import deepspeed
        import torch

        if not torch.cuda.is_available() and not deepspeed.comm.is_initialized():
            deepspeed.init_distributed("gloo")
        start(self, *args, **kwargs)

    partition.Init.__init__ = __init__


def _no_compiled_collectives(comm: ModuleType) -> None:
    """DeepSpeed would compile shared-memory collectives in every rank: minutes, behind a lock."""
    comm.build_shm_op = lambda: None


def _fsdp_on_cpu(state: ModuleType) -> None:
    """accelerate takes FSDP for accelerators only: on CPU it would be plain DDP, without a word."""
    start = state.AcceleratorState.__init__
    kinds = state.DistributedType

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        plugin = kwargs.get("fsdp_plugin")
        if plugin is not None and self.distributed_type == kinds.MULTI_CPU:
            self.distributed_type = kinds.FSDP
            self.fsdp_plugin = plugin
            state.PartialState._shared_state["distributed_type"] = kinds.FSDP

    state.AcceleratorState.__init__ = __init__
