"""QwenLM/Qwen3-VL, qwen-vl-finetune: scripts/sft.sh and sft_qwen3_4b.sh."""

from __future__ import annotations

from collections.abc import Sequence

from tools.repositories.recipe import (
    Cell,
    Place,
    Recipe,
    cells,
    conversations,
    copied,
    deepspeed,
    trainer,
)

NAMES = {"qwen2_5_vl": "Qwen2.5-VL-tiny", "qwen3_vl": "Qwen3-VL-tiny"}


def _words(cell: Cell, place: Place) -> Sequence[str]:
    rows = conversations(place)
    told = place.work / "qwenvl" / "data" / "__init__.py"
    entry = {"annotation_path": str(rows), "data_path": str(place.data)}
    told.write_text(told.read_text().replace("data_dict = {", f'data_dict = {{"tiny": {entry},', 1))
    model = copied(place, NAMES[cell.model], {"assistant": 77091})
    return [
        "qwenvl/train/train_qwen.py",
        *(deepspeed(place, f"scripts/{cell.strategy}.json") if cell.strategy != "ddp" else []),
        *("--model_name_or_path", str(model), "--dataset_use", "tiny", "--data_flatten", "True"),
        *("--tune_mm_vision", str(cell.tower == "trained"), "--tune_mm_mlp", "True"),
        *("--tune_mm_llm", "True", "--max_pixels", "50176", "--min_pixels", "784"),
        *("--model_max_length", "8192", "--lora_enable", str(cell.tuning == "lora")),
        *("--lora_r", "4", "--lora_dropout", "0.000000001"),
        *trainer(place, eval_strategy="no", warmup_ratio="0"),
    ]


RECIPE = Recipe(
    name="QwenLM/Qwen3-VL",
    folder="qwen-vl-finetune",
    script="qwen-vl-finetune/qwenvl/train/train_qwen.py",
    over="repositories-4.57",
    words=_words,
    cells=[
        *cells("qwen3_vl", ("zero3", "zero2"), "trained/full", "frozen/full"),
        *cells("qwen2_5_vl", ("zero3",), "frozen/full", "trained/full", "frozen/lora"),
    ],
    changes=("order", "sdpa", "alone", "synchronize", "groups"),
    altered="the data set is entered in qwenvl/data/__init__.py as its README says",
)
