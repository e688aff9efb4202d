"""Repositories that were not run, each with the part that refused."""

from __future__ import annotations

from tools.repositories.recipe import Recipe

RECIPES = (
    Recipe(
        name="illuin-tech/colpali",
        script="scripts/configs/qwen2/train_colqwen25_model.py",
        refused="its ContrastiveTrainer fails with one data set, as its scripts have it: "
        "_get_train_sampler takes no data set, which transformers 5.23 gives it, and query_prefix "
        "is set for a list of data sets alone",
    ),
    Recipe(
        name="TinyLLaVA/TinyLLaVA_Factory",
        script="tinyllava/train/train.py",
        refused="Python 3.11: tinyllava/data/template has a dataclass with a mutable default "
        "(`EmptyFormatter`), which dataclasses refuse since 3.11; the project asks for 3.10",
    ),
    Recipe(
        name="TIGER-AI-Lab/VLM2Vec",
        script="train.py",
        refused="its trainer replaces transformers' whole loop, in which weights are captured "
        "here; bf16 and flash attention stand in src/model/model.py",
    ),
    Recipe(
        name="huggingface/smollm",
        script="vision/smolvlm2/smolvlm/train/train_mem.py",
        refused="its model file imports IDEFICS3_INPUTS_DOCSTRING, which neither transformers "
        "4.52.3 nor a later release has; no environment of an earlier one with Idefics3 was made",
    ),
)
