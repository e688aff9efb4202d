"""What ``vlmguard selftest`` runs on ms-swift: ``swift sft`` on a language model of two layers."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vlmguard_transformers import tiny

FRAMEWORK = "ms-swift"
CRASH = "Expected to mark a variable ready only once"
COMMAND = """--torch_dtype float32 --fp16 false --bf16 false --use_cpu true --ddp_backend gloo
    --attn_impl eager --check_model false --use_hf true --report_to none --save_strategy no
    --split_dataset_ratio 0 --dataloader_num_workers 0 --per_device_train_batch_size 1
    --gradient_accumulation_steps 1 --max_steps 2 --logging_steps 1 --optim sgd
    --ddp_find_unused_parameters true
    --gradient_checkpointing_kwargs '{"use_reentrant": true}'"""


def load() -> None:
    """Import what the ranks need: once, before they are forked."""
    _command()


def _command() -> Callable[[list[str]], Any]:
    try:
        from swift.pipelines import sft_main
    except ModuleNotFoundError as error:
        if error.name != "swift.pipelines":
            raise
        from swift.llm import sft_main  # ms-swift 3.x
    return sft_main


def prepare(folder: Path) -> list[str]:
    """Build the model and its data; the command's flags."""
    rows = [
        {"messages": [{"role": "user", "content": f"what is {n}?"},
                      {"role": "assistant", "content": f"number {n}"}]}
        for n in range(8)
    ]  # fmt: skip
    data = tiny.write_rows(folder / "rows.jsonl", rows)
    model = tiny.save(folder / "model")
    places = ["--model", str(model), "--dataset", str(data), "--output_dir", "out"]
    kind = ["--model_type", "qwen2", "--template", "qwen", *_full()]
    return [*places, *kind, *shlex.split(COMMAND)]


def _full() -> list[str]:
    """The flag was renamed in 4.0."""
    from importlib.metadata import version

    name = "--tuner_type" if int(version("ms-swift").split(".")[0]) >= 4 else "--train_type"
    return [name, "full"]


def train(argv: list[str]) -> None:
    """``swift sft`` in this rank."""
    _command()(argv)
