"""A real Trainer whose guard is switched on and off from step to step, in one process."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

import model as models
import torch
import transformers

WARM = 6
"""Steps before any is counted: gradients are watched in the first three."""


class Rows(torch.utils.data.Dataset):
    """Rows with an image each."""

    def __init__(self, size: str, like: Any, count: int) -> None:
        self.rows = [models.row(size, seed, True, like) for seed in range(4)]
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return self.rows[number % len(self.rows)]


class Toggle(transformers.TrainerCallback):
    """Off, on, on, off, and so on; each step's wall and processor time.

    Attributes:
        spent: of each counted step: whether the guard was on, processor and wall seconds, peak
            bytes (0 on CPU), seconds inside our own functions.
        warming: the last of each step before these, in which something is still looked at.
    """

    def __init__(self, device: str) -> None:
        self.device, self.number = device, -WARM
        self.spent: list[tuple[bool, float, float, int, float]] = []
        self.warming: list[float] = []
        self.inside = 0.0
        self.on = True

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.on = self.number < 0 or self.number % 4 in (1, 2)
        os.environ["VLMGUARD"] = "on" if self.on else "off"
        if self.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        self.inside = 0.0
        self.start = time.process_time(), time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()
        used, wall = time.process_time() - self.start[0], time.perf_counter() - self.start[1]
        most = torch.cuda.max_memory_allocated() if self.device == "cuda" else 0
        if self.number >= 0:
            self.spent.append((self.on, used, wall, most, self.inside))
        else:
            self.warming.append(self.inside)
        self.number += 1
        os.environ["VLMGUARD"] = "on"

    def timed(self, contain: Any) -> Any:
        """``contain``, through which all that we do in a step goes, with its time taken."""

        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return contain(*args, **kwargs)
            finally:
                self.inside += time.perf_counter() - start

        return call


def trainer(size: str, device: str, dtype: torch.dtype, steps: int, callback: Any) -> Any:
    """A plain Trainer, SGD, nothing logged or saved."""
    import vlmguard.auto  # noqa: F401

    model = models.make(size, device, dtype)
    arguments = transformers.TrainingArguments(
        tempfile.mkdtemp(prefix="vlmguard-gpu-"), max_steps=steps, per_device_train_batch_size=1,
        use_cpu=device == "cpu", optim="sgd", learning_rate=1e-4, max_grad_norm=0,
        lr_scheduler_type="constant", report_to="none", save_strategy="no",
        logging_strategy="no", disable_tqdm=True, remove_unused_columns=False,
        dataloader_pin_memory=False, bf16=dtype is torch.bfloat16,
    )  # fmt: skip
    return transformers.Trainer(
        model, arguments, train_dataset=Rows(size, model, steps), data_collator=models.collate,
        callbacks=[callback] if callback is not None else None,
    )  # fmt: skip


def run(size: str, device: str, dtype: torch.dtype, steps: int) -> dict[str, Any]:
    """``spent`` of so many steps with the guard on and as many with it off, and ``warming``."""
    toggle = Toggle(device)
    made = trainer(size, device, dtype, 2 * steps + WARM, toggle)
    from vlmguard_transformers import lifecycle

    before, lifecycle.contain = lifecycle.contain, toggle.timed(lifecycle.contain)
    try:
        made.train()
    finally:
        lifecycle.contain = before
        os.environ.pop("VLMGUARD", None)
    columns = ["on", "processor", "wall", "peak_bytes", "inside"]
    steps = [list(each) for each in toggle.spent]
    return {"columns": columns, "steps": steps, "inside_warming": toggle.warming}
