"""What ``vlmguard selftest`` runs where there is transformers alone: its Trainer, two layers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from vlmguard_transformers import tiny

FRAMEWORK = "transformers"
CRASH = "Expected to mark a variable ready only once"


def load() -> None:
    """Import what the ranks need: once, before they are forked."""
    importlib.import_module("transformers.trainer")


def prepare(folder: Path) -> list[str]:
    """Build the model; where it lies."""
    return [str(tiny.save(folder / "model"))]


def train(argv: list[str]) -> None:
    """A script as people write it, in this rank."""
    import transformers

    words = transformers.AutoTokenizer.from_pretrained(argv[0])
    rows: list[dict[str, Any]] = [words(f"number {n}!") for n in range(8)]
    rows = [{**row, "labels": list(row["input_ids"])} for row in rows]
    arguments = transformers.TrainingArguments(
        output_dir="out", use_cpu=True, ddp_backend="gloo", report_to=[], save_strategy="no",
        per_device_train_batch_size=1, max_steps=2, logging_steps=1, optim="sgd",
        ddp_find_unused_parameters=True, gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": True},
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_pretrained(argv[0])
    transformers.Trainer(model, arguments, train_dataset=rows).train()
