"""What a run came to and what it left, small enough to be compared: the same with the guard and
without, or the difference is named."""

from __future__ import annotations

import gc
import hashlib
import os
import random
import re
import threading
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
import vlmguard_capture
import vlmguard_train

_TIMES = ("runtime", "per_second", "_time", "time/", "clock")
_EMPTY = frozenset(torch.nn.Module().__dict__)
STANDING = ("hooks", "optimizer hooks", "attributes", "classes")
_COUNTED = re.compile(r"(?<='next_id'\), )ConstantVariable\(int: \d+\)")
"""A reason for a graph break names the number of a hook. torch counts all that were ever made."""
_HOOKS = tuple(sorted(name for name in _EMPTY if "hooks" in name and "with" not in name))


def of_run(models: Mapping[str, Any], optimizers: Sequence[Any], log: Sequence[Mapping[str, Any]],
           more: Mapping[str, Any]) -> dict[str, Any]:  # fmt: skip
    """Weights by name, the optimizers' state, the log, random numbers, hooks, attributes."""
    return {
        "weights": {f"{name}.{key}": value for name, model in models.items()
                    for key, value in _weights(model).items()},
        "optimizer": [_state(each) for each in optimizers],
        "log": [_steady(entry) for entry in log],
        "more": {key: _COUNTED.sub("", repr(value)) for key, value in more.items()},
        "random": _random(),
        "keys": {name: _digest(sorted(model.state_dict())) for name, model in models.items()},
        **standing(models, optimizers),
    }


def standing(models: Mapping[str, Any], optimizers: Sequence[Any]) -> dict[str, Any]:
    """What stands on models, optimizers and classes: hooks, functions of instances."""
    return {
        "hooks": {name: _hooks(model) for name, model in models.items()},
        "optimizer hooks": [_optimizer_hooks(each) for each in optimizers],
        "attributes": {name: _attributes(model) for name, model in models.items()},
        "classes": {name: _classes(model) for name, model in models.items()},
    }


def weakly(*objects: Any) -> dict[str, Any]:
    """References that hold nothing, by class."""
    found = {}
    for number, each in enumerate(objects):
        found[f"{number} {type(each).__name__}"] = weakref.ref(each)
    return found


def left(weak: Mapping[str, Any]) -> dict[str, Any]:
    """What is there once the program has let go of all that it made."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    for _ in range(3):
        gc.collect()
    return {
        "alive": sorted(name for name, each in weak.items() if each() is not None),
        "open": _open(),
        "threads": sorted(thread.name.rstrip("0123456789-") for thread in threading.enumerate()),
        "environment": [name for name in ("VLMGUARD_RUN",) if name in os.environ],
    }  # fmt: skip


def _weights(model: Any) -> dict[str, str]:
    found = {}
    for name, parameter in model.named_parameters():
        with vlmguard_train._whole(parameter):
            whole = vlmguard_train._full(parameter)
            found[vlmguard_capture.plain(name)] = vlmguard_capture.digest(whole)[:12]
            if whole.is_floating_point() and not bool(torch.isfinite(whole).all()):
                found[vlmguard_capture.plain(name)] += " not finite"
    for name, buffer in model.named_buffers():
        if not hasattr(buffer, "full_tensor"):
            found[vlmguard_capture.plain(name)] = vlmguard_capture.digest(buffer)[:12]
    return found


def _state(optimizer: Any) -> str:
    """Of its tensors in their order."""
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    made = []
    for entries in getattr(optimizer, "state", {}).values():
        if isinstance(entries, Mapping):
            tensors = {k: v for k, v in entries.items() if torch.is_tensor(v)}
            made += [f"{k}{vlmguard_capture.digest(_local(v))}" for k, v in tensors.items()]
    return _digest(made)


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _steady(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the log without what a clock says."""
    return {key: repr(value) for key, value in entry.items()
            if not any(part in key for part in _TIMES)}  # fmt: skip


def _random() -> str:
    """Where the generators stand: who draws a number in between moves them."""
    drawn = (torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state())
    return _digest(drawn)


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def _hooks(model: Any) -> dict[str, int]:
    """How many of each kind, on modules and parameters."""
    found: Counter[str] = Counter()
    for module in model.modules():
        for name in _HOOKS:
            found[name] += len(getattr(module, name, None) or ())
    for parameter in model.parameters():
        found["grad"] += len(parameter._backward_hooks or ())
        found["after grad"] += len(parameter._post_accumulate_grad_hooks or ())
    return {name: number for name, number in sorted(found.items()) if number}


def _optimizer_hooks(optimizer: Any) -> int:
    inner, found = optimizer, 0
    while inner is not None:
        for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
            found += len(getattr(inner, "__dict__", {}).get(name, ()))
        inner = getattr(inner, "__dict__", {}).get("optimizer")
    return found


def _attributes(model: Any) -> dict[str, int]:
    """Functions that stand on instances, by class and name."""
    found: Counter[str] = Counter()
    for module in model.modules():
        for name, value in vars(module).items():
            if name not in _EMPTY and callable(value) and not isinstance(value, type):
                found[f"{type(module).__name__}.{name}"] += 1
    return dict(sorted(found.items()))


def _classes(model: Any) -> list[str]:
    """What calls come to: class, and the functions that its class has."""
    kind = type(model)
    told = [kind.__qualname__]
    for name in ("forward", "__call__", "generate", "get_image_features", "state_dict"):
        found = getattr(kind, name, None)
        told.append(f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}")
    return told


def _open() -> dict[str, int]:
    """Open files and sockets by kind. Of ranks only the sockets to the rendezvous' store are
    counted: gloo's own close when the other side does."""
    found: Counter[str] = Counter()
    stores = _to_store()
    for number in os.listdir("/proc/self/fd"):
        try:
            place = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        kind, _, inode = place.partition(":")
        found[kind if kind in ("socket", "pipe", "anon_inode") else "file"] += 1
        found["to the store"] += inode.strip("[]") in stores
    if "MASTER_PORT" in os.environ:
        del found["socket"]
    return {kind: number for kind, number in sorted(found.items()) if number}


def _to_store() -> set[str]:
    """Inodes of connections to the port of the rendezvous."""
    port, found = int(os.environ.get("MASTER_PORT", "0")), set()
    for name in ("tcp", "tcp6"):
        lines = Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
        for words in map(str.split, lines):
            if int(words[2].rpartition(":")[2], 16) == port:
                found.add(words[9])
    return found
