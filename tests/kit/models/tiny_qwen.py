"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL.

The vocabulary cannot shrink: ms-swift's templates name token ids, so the tokenizer has 270 tokens
with a hole below the special ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tiny import TEXT, bytes_tokenizer, content, louder, numbered

QWEN_FIRST = 151643
QWEN_TOKENS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> "
    "<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "
    "<|image_pad|> <|video_pad|>"
).split()
QWEN_IDS = {
    "vision_start_token_id": QWEN_FIRST + 9,
    "vision_end_token_id": QWEN_FIRST + 10,
    "image_token_id": QWEN_FIRST + 12,
    "video_token_id": QWEN_FIRST + 13,
}
QWEN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    + content(
        "<|vision_start|><|image_pad|><|vision_end|>", "<|vision_start|><|video_pad|><|vision_end|>"
    )
    + "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PROCESSORS = {
    "qwen2_vl": "Qwen2VLProcessor",
    "qwen2_5_vl": "Qwen2_5_VLProcessor",
    "qwen3_vl": "Qwen3VLProcessor",
}
QWEN_TEXT = {
    **TEXT,
    "vocab_size": 151936,
    "rms_norm_eps": 1e-6,
    "bos_token_id": QWEN_FIRST,
    "eos_token_id": QWEN_FIRST + 2,
}
MROPE = {"rope_type": "default", "mrope_section": [2, 3, 3]}
PATCHES = {"num_heads": 2, "spatial_merge_size": 2, "temporal_patch_size": 2}
VISION: dict[str, dict[str, Any]] = {
    "qwen2_vl": {**PATCHES, "depth": 2, "embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2},
    "qwen2_5_vl": {
        **PATCHES,
        "depth": 2,
        "hidden_size": 32,
        "out_hidden_size": 32,
        "intermediate_size": 64,
        "window_size": 112,
        "fullatt_block_indexes": [1],
    },
    "qwen3_vl": {
        **PATCHES,
        "depth": 2,
        "hidden_size": 32,
        "out_hidden_size": 32,
        "intermediate_size": 64,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    },
}


OLD = int(transformers.__version__.split(".")[0]) < 5


def build(out: Path, family: str) -> transformers.PreTrainedModel:
    """Write tokenizer and processor, and make the model."""
    patch = write_processor(out, family)
    model = _model(family, patch)
    louder(model, below=float("inf"))
    if OLD:
        _say_something(model)
    return model


def _say_something(model: transformers.PreTrainedModel) -> None:
    """ms-swift 3.x decodes what GRPO generates and encodes it again: ids of the vocabulary's hole
    would vanish, and equal (empty) completions have gradients that cancel. With rows of zero they
    have the logit 0, below the better half of the real tokens, which sampling then draws from."""
    with torch.no_grad():
        model.get_input_embeddings().weight[256:QWEN_FIRST] = 0.0


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def write_processor(out: Path, family: str, first: int = QWEN_FIRST) -> int:
    """Tokenizer (its special tokens from id `first` on) and processor; returns the patch size."""
    special = numbered(QWEN_TOKENS, first)
    tokenizer = bytes_tokenizer(special)
    tokenizer.save(str(out / "tokenizer.json"))
    _json(out / "vocab.json", tokenizer.get_vocab())
    (out / "merges.txt").write_text("#version: 0.2\n")
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    added = {
        str(number): {"content": token, "special": True, **plain}
        for token, number in special.items()
    }
    tokens = {
        "tokenizer_class": "Qwen2Tokenizer",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "model_max_length": 32768,
        "additional_special_tokens": QWEN_TOKENS[1:],
        "added_tokens_decoder": added,
        "chat_template": QWEN_TEMPLATE,
    }
    _json(out / "tokenizer_config.json", tokens)
    _json(out / "chat_template.json", {"chat_template": QWEN_TEMPLATE})
    patch = 16 if family == "qwen3_vl" else 14
    images = {
        "patch_size": patch,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "min_pixels": 4 * patch * patch,
        "max_pixels": 12845056,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": PROCESSORS[family],
    }
    fast = "Qwen2VLImageProcessorFast" if family == "qwen3_vl" else "Qwen2VLImageProcessor"
    _json(out / "preprocessor_config.json", {**images, "image_processor_type": fast})
    if family == "qwen3_vl":
        size = {"shortest_edge": 4096, "longest_edge": 25165824}
        video = {**images, "size": size, "video_processor_type": "Qwen3VLVideoProcessor"}
        _json(out / "video_preprocessor_config.json", video)
    return patch


def _model(family: str, patch: int) -> transformers.PreTrainedModel:
    names = {
        "qwen2_vl": "Qwen2VL",
        "qwen2_5_vl": "Qwen2_5_VL",
        "qwen3_vl": "Qwen3VL",
    }
    config_class = getattr(transformers, f"{names[family]}Config")
    model_class = getattr(transformers, f"{names[family]}ForConditionalGeneration")
    vision = {**VISION[family], "patch_size": patch, "in_channels": 3, "in_chans": 3}
    ids = dict(QWEN_IDS, tie_word_embeddings=True)
    if not OLD:
        text = {**QWEN_TEXT, "rope_parameters": {**MROPE, "rope_theta": 1e6}}
        return model_class(config_class(text_config=text, vision_config=vision, **ids))
    text = {**QWEN_TEXT, "rope_theta": 1e6, "rope_scaling": {**MROPE, "type": "mrope"}}
    if family == "qwen3_vl":
        return model_class(config_class(text_config=text, vision_config=vision, **ids))
    return model_class(config_class(**text, vision_config=vision, **ids))
