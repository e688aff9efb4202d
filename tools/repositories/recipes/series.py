"""2U1/Qwen-VL-Series-Finetune: scripts/finetune.sh and finetune_lora_vision.sh."""

from __future__ import annotations

from collections.abc import Sequence

from tools.repositories.recipe import Cell, Place, Recipe, cells, conversations, deepspeed, trainer
from tools.repositories.recipes.qwen import NAMES


def _words(cell: Cell, place: Place) -> Sequence[str]:
    rows = conversations(place)
    model = place.data / NAMES[cell.model]
    model.symlink_to(place.model)
    lora = cell.tuning == "lora"
    told = [
        "src/train/train_sft.py", *("--use_liger", "False"),
        *(deepspeed(place, f"scripts/{cell.strategy}.json") if cell.strategy != "ddp" else []),
        *("--model_id", str(model), "--data_path", str(rows), "--image_folder", str(place.data)),
        *("--freeze_vision_tower", str(cell.tower == "frozen" or lora)),
        *("--freeze_llm", str(lora), "--freeze_merger", str(lora), "--disable_flash_attn2", "True"),
        *("--image_min_pixels", "784", "--image_max_pixels", "50176", "--lazy_preprocess", "True"),
        *trainer(place, remove_unused_columns=False),
    ]  # fmt: skip
    if lora:
        told += ["--lora_enable", "True", "--vision_lora", str(cell.tower == "trained")]
        told += ["--lora_namespan_exclude", "['lm_head', 'embed_tokens']", "--lora_rank", "4"]
        told += ["--lora_alpha", "8", "--lora_dropout", "0"]
    return told


RECIPE = Recipe(
    name="2U1/Qwen-VL-Series-Finetune",
    script="src/train/train_sft.py",
    over="repositories-4.57",
    words=_words,
    cells=[
        *cells("qwen3_vl", ("zero3",), "trained/full", "frozen/full", "trained/lora"),
        *cells("qwen2_5_vl", ("zero2",), "trained/full", "trained/lora", "frozen/lora"),
    ],
    changes=("order", "alone", "synchronize", "groups"),
    variables=(("PYTHONPATH", "src"),),
)
