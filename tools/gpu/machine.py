"""The machine in words, and how time and memory are read on it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any

import torch


def words(device: str) -> dict[str, str]:
    """What a reader of the numbers needs to know."""
    import transformers

    found = {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    if device == "cuda":
        found["device"] = torch.cuda.get_device_name(0)
        found["cuda"] = str(torch.version.cuda)
    return found


def seconds(call: Callable[[], Any], device: str) -> float:
    """How long ``call()`` takes: on a GPU until the device is done, on CPU in processor time."""
    if device != "cuda":
        start = time.process_time()
        call()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def peak(call: Callable[[], Any], device: str) -> int:
    """Bytes that tensors took beyond what they had before, at most, during ``call()``."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    taken = highest = 0
    events = seen.profiler.kineto_results.events()
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        taken += event.nbytes()
        highest = max(highest, taken)
    return highest
