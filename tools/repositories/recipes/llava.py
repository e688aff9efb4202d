"""haotian-liu/LLaVA: scripts/v1_5/finetune.sh and finetune_lora.sh."""

from __future__ import annotations

from collections.abc import Sequence

from tools.repositories import made
from tools.repositories.recipe import Cell, Place, Recipe, cells, conversations, deepspeed, trainer

OVER = "repositories-4.37"


def _words(cell: Cell, place: Place) -> Sequence[str]:
    rows = conversations(place)
    llama = made.llama("trl", OVER, place.data / "vicuna")
    clip = made.clip("trl", OVER, place.data / "openai-clip")
    told = [
        "llava/train/train_mem.py",
        *deepspeed(place, f"scripts/{cell.strategy}.json", sizes=True),
        *("--model_name_or_path", str(llama), "--version", "v1", "--data_path", str(rows)),
        *("--image_folder", str(place.data), "--vision_tower", str(clip)),
        *("--mm_projector_type", "mlp2x_gelu", "--mm_vision_select_layer", "-2"),
        *("--mm_use_im_start_end", "False", "--mm_use_im_patch_token", "False"),
        *("--image_aspect_ratio", "pad", "--group_by_modality_length", "False"),
        *("--model_max_length", "1024", "--lazy_preprocess", "True"),
        *trainer(place, evaluation_strategy="no"),
    ]
    if cell.tuning == "lora":
        told += ["--lora_enable", "True", "--lora_r", "4", "--lora_alpha", "8"]
        told += ["--lora_dropout", "0"]
    return told


RECIPE = Recipe(
    name="haotian-liu/LLaVA",
    script="llava/train/train_mem.py",
    over=OVER,
    words=_words,
    cells=[
        *cells("llama+clip", ("zero3",), "frozen/full", "frozen/lora"),
        *cells("llama+clip", ("zero2",), "frozen/full"),
    ],
    changes=("order", "sdpa", "alone", "synchronize", "deepspeed", "seed"),
)
