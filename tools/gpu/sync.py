"""Whether the guard makes a training step wait for the device."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

import toggled
import torch
import transformers

WORDS = "synchronizing CUDA operation"


class Counted(transformers.TrainerCallback):
    """Synchronisations in each step, with the guard on and off by turns."""

    def __init__(self, device: str) -> None:
        self.device, self.number = device, 0
        self.found: dict[str, list[int]] = {"on": [], "off": []}
        self.ours: set[str] = set()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        os.environ["VLMGUARD"] = "off" if self.number % 2 else "on"
        self.catching = warnings.catch_warnings(record=True)
        self.caught = self.catching.__enter__()
        warnings.simplefilter("always")
        mode(self.device, "warn")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        mode(self.device, "default")
        self.catching.__exit__(None, None, None)
        told = [each for each in self.caught or () if WORDS in str(each.message)]
        self.found["off" if self.number % 2 else "on"].append(len(told))
        self.ours |= {
            f"{each.filename.rpartition('/')[2]}:{each.lineno}"
            for each in told
            if "vlmguard" in each.filename
        }
        self.number += 1
        os.environ["VLMGUARD"] = "on"


def mode(device: str, name: str) -> None:
    """What torch does at a synchronisation; nothing on CPU."""
    if device == "cuda":
        torch.cuda.set_sync_debug_mode(name)


@contextlib.contextmanager
def strict(device: str) -> Iterator[list[str]]:
    """Inside our own functions a synchronisation is an error; yields what was one."""
    from vlmguard_transformers import lifecycle

    broken: list[str] = []
    contain = lifecycle.contain

    def call(what: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        def inner(*given: Any) -> Any:
            mode(device, "error")
            try:
                return function(*given)
            except RuntimeError as error:
                if WORDS in str(error):
                    broken.append(what)
                raise
            finally:
                mode(device, "warn")

        per_step = what in ("beginning a step", "ending a step", "judging gradients",
                            "noting that a blank input held")  # fmt: skip
        return contain(what, inner if per_step else function, *args, **kwargs)

    lifecycle.contain = call
    try:
        yield broken
    finally:
        lifecycle.contain = contain


class Whole(transformers.TrainerCallback):
    """A synchronisation anywhere in a step is an error, from the second step on."""

    def __init__(self, device: str) -> None:
        self.device, self.number = device, 0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.number += 1
        mode(self.device, "error" if self.number > 1 else "default")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        mode(self.device, "default")


def whole(device: str, dtype: torch.dtype, guard: bool) -> str:
    """"passed", or what torch said of the first synchronisation in a whole step."""
    os.environ["VLMGUARD"] = "on" if guard else "off"
    try:
        made = toggled.trainer("tiny", device, dtype, 6, Whole(device))
        made.args.logging_nan_inf_filter = False  # True would read each loss
        made.train()
    except RuntimeError as error:
        return str(error).splitlines()[0][:200]
    finally:
        mode(device, "default")
        os.environ.pop("VLMGUARD", None)
    return "passed"


def look(device: str, dtype: torch.dtype) -> dict[str, Any]:
    """Synchronisations of a step on and off, those of ours, and whole steps in the error mode."""
    counted = Counted(device)
    made = toggled.trainer("tiny", device, dtype, 12, counted)
    with strict(device) as broken:
        made.train()
    os.environ.pop("VLMGUARD", None)
    return {
        "steps": counted.found,
        "ours_under_error": broken or "passed",
        "ours_seen": sorted(counted.ours),
        "whole_step_off": whole(device, dtype, False),
        "whole_step_on": whole(device, dtype, True),
    }
