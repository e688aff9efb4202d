"""axolotl-ai-cloud/axolotl: examples/qwen2_5-vl/lora-7b.yaml, and the same without its adapter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tools.repositories.recipe import (
    ANSWERS,
    KINDS,
    RATE,
    STEPS,
    WORLD,
    Cell,
    Place,
    Recipe,
    cells,
    deepspeed,
    picture,
)

MODULES = r"model.language_model.layers.[\d]+.(mlp|self_attn).(up|down|gate|q|k|v|o)_proj"


def _words(cell: Cell, place: Place) -> Sequence[str]:
    lines = []
    for number, kind in enumerate(KINDS):
        asked: list[dict[str, Any]] = [{"type": "text", "text": f"What is number {number}?"}]
        if kind == "image":
            seen = str(place.data / picture(place.data, number))
            asked.insert(0, {"type": "image", "path": seen})
        said = [{"type": "text", "text": ANSWERS[0]}]
        turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
        lines.append(json.dumps({"messages": turns}))
    rows = place.data / "rows.jsonl"
    rows.write_text("\n".join(lines) + "\n")
    told: dict[str, Any] = {
        "base_model": str(place.model), "processor_type": "AutoProcessor",
        "skip_prepare_dataset": True, "remove_unused_columns": False, "sample_packing": False,
        "chat_template": "qwen2_vl",
        "datasets": [{"path": str(rows), "type": "chat_template", "ds_type": "json"}],
        "dataset_prepared_path": str(place.data / "prepared"), "val_set_size": 0.0,
        "output_dir": str(place.data / "output"), "sequence_len": 8192,
        "pad_to_sequence_len": False, "shuffle_merged_datasets": False,
        "gradient_accumulation_steps": WORLD if place.alone else 1, "micro_batch_size": 1,
        "max_steps": STEPS, "num_epochs": 1, "optimizer": "sgd", "lr_scheduler": "constant",
        "learning_rate": float(RATE), "max_grad_norm": 0, "bf16": False, "fp16": False,
        "tf32": False, "gradient_checkpointing": not place.alone, "logging_steps": 1,
        "attn_implementation": "sdpa", "weight_decay": 0.0, "saves_per_epoch": 0,
        "save_strategy": "no", "use_cpu": True, "ddp_backend": "gloo", "dataloader_num_workers": 0,
        "dataloader_pin_memory": False,
    }  # fmt: skip
    if cell.tuning == "lora":
        told |= {"adapter": "lora", "lora_r": 4, "lora_alpha": 8, "lora_dropout": 0.0}
        told["lora_target_modules"] = MODULES
        told |= {f"lora_{part}_kernel": False for part in ("mlp", "qkv", "o")}  # triton's
    if cell.tower == "frozen" and cell.tuning == "full":
        told["unfrozen_parameters"] = ["^model.language_model", "^lm_head"]
    if cell.strategy.startswith("zero"):
        words = deepspeed(place, f"deepspeed_configs/{cell.strategy}.json")
        told |= {"deepspeed": words[1]} if words else {}
    settled = place.work / "src" / "axolotl" / "utils" / "config" / "__init__.py"
    text = settled.read_text().replace('{"": int(os.environ.get("LOCAL_RANK", 0))}', "None")
    settled.write_text(text)
    named = place.work / "src" / "axolotl-0.0.0.dist-info"  # it asks for its own release
    named.mkdir()
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: axolotl\nVersion: 0.0.0\n")
    config = place.data / "config.yaml"
    config.write_text(json.dumps(told))  # JSON is YAML
    return ["-m", "axolotl.cli.train", str(config)]


RECIPE = Recipe(
    name="axolotl-ai-cloud/axolotl",
    script="axolotl.cli.train",
    over="repositories-5.14",
    words=_words,
    cells=[
        *cells("qwen2_5_vl", ("ddp",), "trained/full"),
        *cells("qwen2_5_vl", ("zero2", "zero3"), "frozen/lora"),
    ],
    changes=("order", "alone", "synchronize", "groups", "pictures"),
    altered="a torch above the one it pins (2.12.1), which has a CPU build here; no GPU is "
    "named for a rank; LoRA without its kernels, which want CUDA",
    variables=(
        ("PYTHONPATH", "src"), ("AXOLOTL_DO_NOT_TRACK", "1"), ("DO_NOT_TRACK", "1"),
        ("ACCELERATE_USE_CPU", "true"),
    ),
)
