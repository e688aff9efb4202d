"""huggingface/sentence-transformers: its example training_visual_document_retrieval.py."""

from __future__ import annotations

from collections.abc import Sequence

from tools.repositories import made
from tools.repositories.recipe import ANSWERS, STEPS, WORLD, Cell, Place, Recipe, cells, picture

SCRIPT = (
    "examples/sentence_transformer/training/multimodal/training_visual_document_retrieval.py"
)
DATA = "tomaarsen/llamaindex-vdr-en-train-preprocessed"
OVER = "repositories-5.23"
BATCH = 2
CHANGES = {
    '"attn_implementation": "flash_attention_2", "torch_dtype": "bfloat16"': "",
    "matryoshka_dims=[2048, 1536, 1024, 512, 256, 128, 64]": "matryoshka_dims=[32, 16]",
    "in [2048, 1536, 1024, 512, 256, 128, 64]": "in []",
    "num_train_epochs=1": f"max_steps={STEPS}, use_cpu=True, ddp_backend='gloo', optim='sgd'",
    "per_device_train_batch_size=64": f"per_device_train_batch_size={BATCH}, max_grad_norm=0",
    "learning_rate=2e-5": "learning_rate=0.1, lr_scheduler_type='constant', report_to='none'",
    "warmup_ratio=0.1": "dataloader_num_workers=0",
    "bf16=True": "bf16=False",
    "batch_sampler=BatchSamplers.NO_DUPLICATES,": "",
    'eval_strategy="steps"': 'eval_strategy="no"',
    "    eval_steps=0.1,\n": "",
    'save_strategy="steps"': 'save_strategy="no"',
    "    save_steps=0.1,\n": "",
    "logging_steps=0.05": "logging_steps=1",
    "eval_evaluator(model)": "",
    "    evaluator=eval_evaluator,\n": "",
    "    model.push_to_hub(run_name)": "    pass",
}
"""Three steps of SGD in float32; no evaluation, nothing sent anywhere."""


def _words(cell: Cell, place: Place) -> Sequence[str]:
    changes = dict(CHANGES)
    if place.alone:
        told = changes["per_device_train_batch_size=64"]
        changes["per_device_train_batch_size=64"] = (
            f"{told}, gradient_accumulation_steps={WORLD}"
        )
    made.altered(place.work / SCRIPT, changes)
    model = place.work / "Qwen" / "Qwen3-VL-Embedding-2B"
    model.parent.mkdir()
    model.symlink_to(place.model)
    where = place.work / DATA
    where.mkdir(parents=True)
    rows = []
    for number in range(STEPS * WORLD * BATCH):
        row = {"query": f"find {ANSWERS[number % len(ANSWERS)]}"}
        row["image"] = picture(where, number)
        for each in range(4):
            row[f"negative_{each}"] = picture(where, 100 + 4 * number + each)
        rows.append(row)
    for name in ("train", "eval"):
        (where / name).mkdir()
    made.parquet("trl", OVER, rows, where / "train.parquet")
    for name in ("train", "eval"):
        (where / name / "train.parquet").write_bytes((where / "train.parquet").read_bytes())
    (where / "train.parquet").unlink()
    for name in where.glob("*.png"):
        name.unlink()
    (where / "README.md").write_text(
        "---\nconfigs:\n- config_name: train\n  data_files:\n  - split: train\n    path: train/*\n"
        "- config_name: eval\n  data_files:\n  - split: train\n    path: eval/*\n---\n"
    )
    return [SCRIPT]


RECIPE = Recipe(
    name="huggingface/sentence-transformers",
    script=SCRIPT,
    over=OVER,
    words=_words,
    cells=cells("qwen3_vl", ("ddp",), "trained/full"),
    changes=("order", "alone", "synchronize"),
    altered="the script's arguments: three steps of SGD in float32, no evaluation",
)
