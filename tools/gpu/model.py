"""Qwen2-VL of random weights in four sizes, and rows for it: no checkpoint, no processor."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
import transformers

IMAGE, VIDEO, START, END = 6, 7, 8, 9
FIRST = 10
"""The first id of text."""
MAJOR = int(transformers.__version__.split(".")[0])


@dataclass(frozen=True)
class Size:
    """How large a model and its rows are.

    Attributes:
        text: sizes of the language model; ``vision`` of the tower.
        sections: of the rotary embedding, which add up to half of a head.
        tokens: of a row.
        side: patches of an image's side; four patches fill a token.
    """

    text: dict[str, int]
    vision: dict[str, int]
    sections: tuple[int, int, int]
    tokens: int
    side: int


SIZES = {
    "tiny": Size(
        {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 128},
        {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2},
        (2, 3, 3), 24, 4,
    ),
    "small": Size(
        {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 4096},
        {"depth": 6, "embed_dim": 192, "hidden_size": 256, "num_heads": 4, "mlp_ratio": 4},
        (8, 12, 12), 192, 16,
    ),
    "long": Size(  # the same, with rows as long as in real trainings
        {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 4096},
        {"depth": 6, "embed_dim": 192, "hidden_size": 256, "num_heads": 4, "mlp_ratio": 4},
        (8, 12, 12), 2048, 32,
    ),
    "2b": Size(  # the sizes of Qwen2-VL-2B
        {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
         "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936},
        {"depth": 32, "embed_dim": 1280, "hidden_size": 1536, "num_heads": 16, "mlp_ratio": 4},
        (16, 24, 24), 2048, 56,
    ),
}  # fmt: skip


def config(size: str) -> Any:
    """Its config, in the spelling of the installed transformers."""
    chosen = SIZES[size]
    rope = {"rope_type": "default", "mrope_section": list(chosen.sections)}
    rope = {**rope, "rope_theta": 1e6} if MAJOR >= 5 else {**rope, "type": "mrope"}
    text = {
        **chosen.text,
        "rope_parameters" if MAJOR >= 5 else "rope_scaling": rope,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
    }
    return transformers.Qwen2VLConfig(
        text_config=text,
        vision_config={**chosen.vision, "patch_size": 14, "temporal_patch_size": 2,
                       "spatial_merge_size": 2},
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=START,
        vision_end_token_id=END,
        tie_word_embeddings=False,
    )  # fmt: skip


def make(size: str, device: str, dtype: torch.dtype = torch.float32) -> Any:
    """The model in training mode, its weights drawn on ``device``; the same for every caller."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = transformers.Qwen2VLForConditionalGeneration(config(size))
    finally:
        torch.set_default_dtype(before)
    model.config.use_cache = False
    return model.to(device=device, dtype=dtype).train()


def row(size: str, seed: int, image: bool, like: Any) -> dict[str, torch.Tensor]:
    """One row on the CPU: ids (tokens,) int64, an image's patches (patches, values) float32.

    Args:
        like: the model, whose forward says which entries it knows.
    """
    chosen = SIZES[size]
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(FIRST, 100, (chosen.tokens,), generator=generator)
    media: dict[str, torch.Tensor] = {}
    if image:
        patches, number = chosen.side**2, chosen.side**2 // 4
        ids[1] = START
        ids[2 : 2 + number] = IMAGE
        ids[2 + number] = END
        media = {
            "pixel_values": torch.randn(patches, 3 * 2 * 14 * 14, generator=generator),
            "image_grid_thw": torch.tensor([[1, chosen.side, chosen.side]]),
        }
    made = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    made["labels"] = ids.masked_fill(ids < FIRST, -100)
    if "mm_token_type_ids" in inspect.signature(type(like).forward).parameters:
        made["mm_token_type_ids"] = (ids == IMAGE).long()
    return {**made, **media}


def collate(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Rows of one length side by side; what belongs to images one after another."""
    keys = {key: None for each in rows for key in each}
    many = ("pixel_values", "image_grid_thw")
    return {
        key: torch.cat([each[key] for each in rows if key in each])
        if key in many
        else torch.stack([each[key] for each in rows])
        for key in keys
    }
