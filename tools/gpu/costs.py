"""What each mend costs in a step: time and peak memory, variants by turns in one process."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import machine
import model as models
import torch

from vlmguard.ranks import ports


class Bed:
    """A model with a step of images and one of text alone."""

    def __init__(self, size: str, device: str, dtype: torch.dtype) -> None:
        self.device = device
        self.model = models.make(size, device, dtype)
        self.images, self.text = (
            {key: self._moved(each, dtype) for key, each in models.collate(rows).items()}
            for rows in (
                [models.row(size, 0, True, self.model)],
                [models.row(size, 1, False, self.model)],
            )
        )

    def _moved(self, each: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return each.to(self.device, dtype if each.is_floating_point() else None)

    def step(self, batch: dict[str, torch.Tensor], model: Any = None) -> None:
        """Forward, backward; gradients are dropped, so that every step starts alike."""
        (model or self.model)(**batch).loss.backward()
        self.model.zero_grad(set_to_none=True)

    def checkpoints(self, reentrant: bool | None) -> None:
        """Switch checkpointing; None: off."""
        if reentrant is None:
            self.model.gradient_checkpointing_disable()
            return
        self.model.gradient_checkpointing_enable({"use_reentrant": reentrant})


Variants = dict[str, Callable[[], Any]]


def compared(prepare: Variants, step: Callable[[str], None], turns: int, device: str) -> Any:
    """Seconds and peak bytes of a step of each variant, measured by turns.

    Args:
        prepare: variant → what switches it on.
        step: makes a step of the variant that is on.
    """
    times: dict[str, list[float]] = {name: [] for name in prepare}
    peaks: dict[str, int] = {}
    for turn in range(turns + 1):
        for name in list(prepare)[:: 1 if turn % 2 else -1]:
            prepare[name]()
            step(name)  # warm up
            if turn == 0:
                step(name)  # DDP makes new buckets in its second step
                peaks[name] = machine.peak(lambda n=name: step(n), device)
            else:
                times[name].append(machine.seconds(lambda n=name: step(n), device))
    return {"seconds": times, "peak_bytes": peaks}


def checkpointing(bed: Bed, turns: int) -> Any:
    """No checkpointing, reentrant, non-reentrant."""
    prepare: Variants = {
        "none": lambda: bed.checkpoints(None),
        "reentrant": lambda: bed.checkpoints(True),
        "non_reentrant": lambda: bed.checkpoints(False),
    }
    found = compared(prepare, lambda _: bed.step(bed.images), turns, bed.device)
    bed.checkpoints(None)
    return found


def find_unused(bed: Bed, turns: int) -> Any:
    """DDP in one rank, with and without looking for unused parameters."""
    wrapped: list[Any] = []

    def wrap(unused: bool) -> None:
        wrapped.clear()
        gc.collect()  # two wrappers of one model would both wait for its gradients
        on = [0] if bed.device == "cuda" else None
        wrapped.append(
            torch.nn.parallel.DistributedDataParallel(
                bed.model, device_ids=on, find_unused_parameters=unused
            )
        )

    prepare: Variants = {"plain": lambda: wrap(False), "find_unused": lambda: wrap(True)}
    with _alone():
        try:
            return compared(prepare, lambda _: bed.step(bed.images, wrapped[0]), turns, bed.device)
        finally:
            wrapped.clear()
            gc.collect()


def blank(bed: Bed, turns: int) -> Any:
    """A step of text alone, with and without the blank input; a step with an image beside it."""
    from vlmguard_torch.blank import blank_input as blanks

    put: list[Any] = []

    def on() -> None:
        put.append(blanks.install(bed.model, when="always"))

    def off() -> None:
        while put:
            put.pop().close()

    prepare: Variants = {"text": off, "text_with_blank": on, "image": off}
    batches = {"text": bed.text, "text_with_blank": bed.text, "image": bed.images}

    def step(name: str) -> None:
        bed.step(batches[name])

    def prepared(name: str) -> Callable[[], None]:
        def call() -> None:
            off()
            prepare[name]()

        return call

    found = compared({name: prepared(name) for name in prepare}, step, turns, bed.device)
    off()
    return found


@contextmanager
def _alone() -> Iterator[None]:
    """A process group of one rank."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    where = f"tcp://127.0.0.1:{ports.free()}"
    torch.distributed.init_process_group("gloo", init_method=where, rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def all_of(size: str, device: str, dtype: torch.dtype, turns: int) -> dict[str, Any]:
    """Every mend's cost on one model."""
    bed = Bed(size, device, dtype)
    found = {
        "parameters": sum(p.numel() for p in bed.model.parameters()),
        "checkpointing": checkpointing(bed, turns),
        "find_unused": find_unused(bed, turns),
        "blank": blank(bed, turns),
    }
    return found
