"""What a user's own script asks its machine for, answered on a CPU in float32: devices, dtypes,
process groups, worker processes, and the variables of a launcher."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Limit = Callable[[str], None]
_LAUNCHER = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}

_LIBRARIES = ("accelerate", "datasets", "deepspeed", "huggingface_hub", "peft", "torch",
              "transformers", "trl", "vlmguard")  # fmt: skip
"""Wherever they lie, on PYTHONPATH, too."""


def answers(
    single: bool, launched: bool, paths: Sequence[str], limit: Limit, in_float32: bool = False
) -> None:
    """From now on, in this process.

    Args:
        single: no launcher's variables are set and no group is there, although the script may count
            on both.
        in_float32: no tensor is made with 16 bits.
    """
    _devices(limit)
    _tensors_here(*([whole] if in_float32 else []))
    _cards(tuple(paths))
    _groups(single)
    _few_processes()
    if single and launched:
        _variables(tuple(paths))


def _devices(limit: Limit) -> None:
    import torch

    kind = torch.nn.Module
    to = kind.to

    @functools.wraps(to)
    def moved(self: Any, *args: Any, **named: Any) -> Any:
        args = tuple(each for each in args if not _elsewhere(each))
        named = {name: each for name, each in named.items() if not _elsewhere(each)}
        return to(self, *args, **named) if args or set(named) - {"non_blocking"} else self

    def _elsewhere(value: Any) -> bool:
        if isinstance(value, torch.dtype):
            return True
        return isinstance(value, (int, torch.device)) or (
            isinstance(value, str) and value.startswith(("cuda", "npu", "xpu", "cpu"))
        )

    kind.to = moved
    for name in ("cuda", "half", "bfloat16"):
        setattr(kind, name, lambda self, *_, **__: self)
    torch.Tensor.cuda = lambda self, *_, **__: self
    for name in ("set_device", "empty_cache", "manual_seed_all", "synchronize", "ipc_collect",
                 "reset_peak_memory_stats"):  # fmt: skip
        setattr(torch.cuda, name, lambda *_, **__: None)


_MAKERS = ("arange", "as_tensor", "empty", "eye", "full", "linspace", "ones", "rand", "randint",
           "randn", "randperm", "tensor", "zeros", "zeros_like", "ones_like", "empty_like",
           "full_like", "rand_like", "randn_like")  # fmt: skip


def whole(value: Any) -> Any:
    """float32 in the place of a dtype of 16 bits."""
    import torch

    return torch.float32 if value in (torch.bfloat16, torch.float16) else value


def _tensors_here(number: Callable[[Any], Any] = lambda value: value) -> None:
    """A tensor that is asked for on a GPU is made here. number: what a dtype is replaced by."""
    import torch
    from torch.jit import _builtins
    from torch.utils._device import _device_constructors

    _device_constructors()  # kept: ``with torch.device("meta")`` knows makers by what they are now

    def here(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return number(value)
        gpu = isinstance(value, torch.device) and value.type == "cuda"
        return "cpu" if gpu or (isinstance(value, str) and value.startswith("cuda")) else value

    def wrapped(own: Any) -> Any:
        @functools.wraps(own)
        def made(*args: Any, **named: Any) -> Any:
            for name in ("device", "map_location", "dtype"):
                if name in named:
                    named[name] = here(named[name])
            return own(*args, **named)

        if known := _builtins._find_builtin(own):  # code that is compiled by ``torch.jit.script``
            _builtins._register_builtin(made, known)
        return made

    for name in (*_MAKERS, "load"):
        setattr(torch, name, wrapped(getattr(torch, name)))
    to = wrapped(torch.Tensor.to)

    @functools.wraps(torch.Tensor.to)
    def moved(self: Any, *args: Any, **named: Any) -> Any:
        if args and type(args[0]) is int:  # a GPU's number
            args = ("cpu", *args[1:])
        return to(self, *map(here, args), **named)

    torch.Tensor.to = moved


def _cards(paths: tuple[str, ...]) -> None:
    """To the script's own files each rank has a GPU."""
    import torch

    there = torch.cuda.is_available
    torch.cuda.is_available = lambda: there() or _asked_by(paths)
    if there():
        return
    size = 80 << 30
    card = SimpleNamespace(name="GPU", major=9, minor=0, total_memory=size,
                           multi_processor_count=100)  # fmt: skip
    count = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    for name, told in (("current_device", 0), ("device_count", count),
                       ("get_device_capability", (9, 0)),
                       ("get_device_name", "GPU"), ("get_device_properties", card),
                       ("is_bf16_supported", True), ("mem_get_info", (size, size))):  # fmt: skip
        own = getattr(torch.cuda, name)

        @functools.wraps(own)
        def asked(*args: Any, _own: Any = own, _told: Any = told, **named: Any) -> Any:
            return _told if _asked_by(paths) else _own(*args, **named)

        setattr(torch.cuda, name, asked)


def _groups(single: bool) -> None:
    """The group is there before the script asks for one."""
    import torch.distributed as dist

    begin = dist.init_process_group

    @functools.wraps(begin)
    def begun(*args: Any, **named: Any) -> None:
        if not dist.is_initialized() and not single:
            begin(*args, **named)

    dist.init_process_group = begun
    if single:
        _alone(dist)


def _alone(dist: Any) -> None:
    if engine := sys.modules.get("deepspeed"):  # it would ask MPI who is there
        engine.init_distributed = lambda *_, **__: None  # type: ignore[attr-defined]
    for name, value in (("get_rank", 0), ("get_world_size", 1), ("barrier", None)):
        own = getattr(dist, name)

        @functools.wraps(own)
        def told(*args: Any, _own: Any = own, _value: Any = value, **named: Any) -> Any:
            return _own(*args, **named) if dist.is_initialized() else _value

        setattr(dist, name, told)


def _few_processes() -> None:
    """Rows are mapped in this process, and nothing is kept beside the user's data."""
    try:
        import datasets
    except ImportError:
        return
    datasets.disable_caching()
    for name in ("map", "filter"):
        own = getattr(datasets.Dataset, name)

        @functools.wraps(own)
        def mapped(self: Any, *args: Any, _own: Any = own, **named: Any) -> Any:
            named.pop("num_proc", None)
            named.pop("cache_file_name", None)
            return _own(self, *args, **named)

        setattr(datasets.Dataset, name, mapped)


def _variables(paths: tuple[str, ...]) -> None:
    """A launcher's variables for the script's own files, as the only rank of one; to libraries
    this process was started by none."""
    kind = type(os.environ)

    class Told(kind):  # type: ignore[misc, valid-type]
        def __getitem__(self, name: str) -> str:
            try:
                return str(super().__getitem__(name))
            except KeyError:
                if name in _LAUNCHER and _asked_by(paths):
                    return _LAUNCHER[name]
                raise

    os.environ.__class__ = Told


def _asked_by(paths: tuple[str, ...]) -> bool:
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith(
        ("os.py", "_collections_abc.py", "<frozen os>", "<frozen _collections_abc>")
    ):
        frame = frame.f_back  # type: ignore[assignment]
    name = str(frame.f_globals.get("__name__")).partition(".")[0] if frame else "vlmguard"
    if frame is None or name in _LIBRARIES or name.startswith("vlmguard"):
        return False
    file = frame.f_code.co_filename
    return file.startswith(paths) and "site-packages" not in file


def own_names(folder: str) -> None:
    """A module that lies beside the script comes before a loaded package of its name."""
    there = Path(folder)
    kept = {*sys.stdlib_module_names, *_LIBRARIES} - {"datasets"}
    for name in [each for each in sys.modules if "." not in each and each not in kept]:
        file = str(getattr(sys.modules[name], "__file__", None) or "")
        if not file or file.startswith(f"{folder}/") or name.startswith(("_", "vlmguard")):
            continue
        if (there / f"{name}.py").is_file() or any((there / name).glob("*.py")):
            for each in [one for one in sys.modules if one.partition(".")[0] == name]:
                del sys.modules[each]


def no_checkpointing() -> None:
    """Wherever the script switches it on: a reference goes without."""
    import transformers

    kind = transformers.PreTrainedModel
    kind.gradient_checkpointing_enable = lambda *_, **__: None


def whole_numbers(model: Any, limit: Limit) -> None:
    """All weights in float32."""
    import torch

    halves = (torch.bfloat16, torch.float16)
    found = 0
    for each in (*model.parameters(), *model.buffers()):
        if each.dtype in halves:
            each.data = each.data.float()
            part = getattr(each, "ds_tensor", None)
            if part is not None:
                part.data = part.data.float()
            found += 1
    if found:
        limit(f"{found} weights that the script keeps in 16 bits: float32")


def in_float32(inputs: Any) -> Any:
    """A batch without numbers of 16 bits, also in parts of it; the same object."""
    import torch

    if not isinstance(inputs, Mapping):
        return inputs
    halves = (torch.bfloat16, torch.float16)
    for name in list(inputs):
        value = inputs[name]
        if isinstance(value, torch.Tensor) and value.dtype in halves:
            inputs[name] = value.float()  # type: ignore[index]
        in_float32(value)
    return inputs
