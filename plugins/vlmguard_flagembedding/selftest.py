"""What ``vlmguard selftest`` runs on FlagEmbedding: an encoder of two layers, fine-tuned."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from vlmguard_transformers import tiny

FRAMEWORK = "FlagEmbedding"
CRASH = "Expected to mark a variable ready only once"
COMMAND = """--use_cpu true --ddp_backend gloo --report_to none --save_strategy no
    --optim sgd --learning_rate 1e-2 --per_device_train_batch_size 2 --train_group_size 3
    --max_steps 2 --logging_steps 1 --dataloader_num_workers 0 --ddp_find_unused_parameters true
    --gradient_checkpointing true --gradient_checkpointing_kwargs '{"use_reentrant": true}'"""


def load() -> None:
    """Import what the ranks need: once, before they are forked."""
    import FlagEmbedding.finetune.embedder.encoder_only.base.__main__  # noqa: F401


def prepare(folder: Path) -> list[str]:
    """Build the model and its data; the command's flags."""
    rows = [
        {"query": f"what is {n}?", "pos": [f"number {n}"], "neg": [f"not {n}" for _ in range(4)]}
        for n in range(16)
    ]
    data = tiny.write_rows(folder / "rows.jsonl", rows)
    model = tiny.save_encoder(folder / "model")
    places = ["--model_name_or_path", str(model), "--train_data", str(data), "--output_dir", "out"]
    return [*places, *shlex.split(COMMAND)]


def train(argv: list[str]) -> None:
    """``-m FlagEmbedding.finetune.embedder.encoder_only.base`` in this rank."""
    from FlagEmbedding.finetune.embedder.encoder_only.base import __main__ as command

    sys.argv[1:] = argv
    command.main()
