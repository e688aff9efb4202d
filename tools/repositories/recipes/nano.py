"""huggingface/nanoVLM: train.sh, its own loop with DistributedDataParallel, nobody's Trainer."""

from __future__ import annotations

from collections.abc import Sequence

from tools.repositories import made
from tools.repositories.recipe import ANSWERS, Cell, Place, Recipe, cells, picture

SETTINGS = {
    "vit_hidden_dim: int = 768": "vit_hidden_dim: int = 32",
    "vit_img_size: int = 512": "vit_img_size: int = 32",
    "vit_patch_size: int = 16": "vit_patch_size: int = 8",
    "vit_n_heads: int = 12": "vit_n_heads: int = 2",
    "vit_n_blocks: int = 12": "vit_n_blocks: int = 2",
    "lm_hidden_dim: int = 960": "lm_hidden_dim: int = 32",
    "lm_inter_dim: int = 2560": "lm_inter_dim: int = 64",
    "lm_base_vocab_size: int = 49152": "lm_base_vocab_size: int = 320",
    "lm_n_heads: int = 15": "lm_n_heads: int = 2",
    "lm_n_kv_heads: int = 5": "lm_n_kv_heads: int = 1",
    "lm_n_blocks: int = 32": "lm_n_blocks: int = 2",
    "lm_max_length: int = 4096": "lm_max_length: int = 256",
    "mp_pixel_shuffle_factor: int = 4": "mp_pixel_shuffle_factor: int = 2",
    "mp_image_token_length: int = 64": "mp_image_token_length: int = 4",
    "max_img_size: int = 2048": "max_img_size: int = 32",
    "vlm_load_backbone_weights: bool = True": "vlm_load_backbone_weights: bool = False",
    "hf_repo_name: str = 'nanoVLM'": "hf_repo_name: str = None",
    "val_size: int = 50000": "val_size: int = 8",
    "batch_size: int = 2": "batch_size: int = 1",
    "gradient_accumulation_steps: int = 8": "gradient_accumulation_steps: int = 1",
    "max_grad_norm: float = 1.0": "max_grad_norm: float = None",
    "eval_in_epochs: bool = True": "eval_in_epochs: bool = False",
    "max_training_steps: int = 40000": "max_training_steps: int = 3",
    "max_sample_length: int = 4096": "max_sample_length: int = 256",
    "stream_dataset: bool = True": "stream_dataset: bool = False",
    "log_wandb: bool = True": "log_wandb: bool = False",
    "use_lmms_eval: bool = True": "use_lmms_eval: bool = False",
}
"""Of models/config.py: a tiny model, few rows, no clipping, nothing sent anywhere."""
TRAIN = {
    "max_lr * (it+1) / warmup_steps": "max_lr",
    "min_lr + coeff * (max_lr - min_lr)": "max_lr",
    "num_workers=3": "num_workers=0",
    "num_workers=1": "num_workers=0",
    "num_of_sequences=train_cfg.batch_size*4": "num_of_sequences=1",
    "device=torch.cuda.current_device()": "device='cpu'",
    "device_ids=[local_rank], output_device=local_rank": "",
    "dist.barrier(device_ids=int(os.environ[\"LOCAL_RANK\"]))": "dist.barrier()",
    "dtype=torch.bfloat16 if": "enabled=False, dtype=torch.bfloat16 if",
    ", on_bad_files='warn'": "",
}
"""Of train.py: a constant rate, no workers, no CUDA device, no bf16, an older datasets."""
DATA = {"torch.cuda.current_device()": "'cpu'"}
ORDER = {"random.shuffle(knapsack_groups)": "pass"}
"""Its threads draw from one generator: packs would come in another order in each run."""
OVER = "repositories-4.57"
MANY = 48
"""Rows, every other of text alone. The script packs them, and leaves out packs without an image."""


def _words(cell: Cell, place: Place) -> Sequence[str]:
    files = {"models/config.py": SETTINGS, "train.py": TRAIN, "data/data_utils.py": DATA}
    files["data/advanced_datasets.py"] = ORDER
    for name, changes in files.items():
        made.altered(place.work / name, changes)
    tokens = "<|endoftext|> <|im_start|> <|im_end|>"
    where = place.work / "HuggingFaceTB" / "SmolLM2-360M-Instruct"
    made.tokenizer("trl", OVER, where, tokens, "eos_token=<|im_end|> bos_token=<|endoftext|>")
    rows = []
    for number in range(MANY):
        texts = [{"user": f"What is {number}?", "assistant": ANSWERS[number % len(ANSWERS)]}]
        seen = [picture(place.data, number)] if number % 2 else []
        rows.append({"texts": texts, "images": seen})
    (place.data / "rows").mkdir()
    for name in place.data.glob("*.png"):
        name.rename(place.data / "rows" / name.name)
    made.parquet("trl", OVER, rows, place.data / "rows" / "train.parquet")
    for name in (place.data / "rows").glob("*.png"):
        name.unlink()
    rate = "0.0" if cell.tower == "frozen" else "0.1"
    return [
        *("train.py", "--lr_mp", "0.1", "--lr_vision_backbone", rate),
        *("--lr_language_backbone", "0.1", "--train_dataset_path", str(place.data / "rows")),
    ]


RECIPE = Recipe(
    name="huggingface/nanoVLM",
    script="train.py",
    over=OVER,
    words=_words,
    cells=cells("nanoVLM", ("ddp",), "trained/full", "frozen/full"),
    changes=("gloo", "sgd", "synchronize", "loop"),
    altered="a tiny model in models/config.py; constant rate, no clipping, no bf16, packs in order",
    replayed=True,
)
