"""Qwen3.5 and MiniCPM-V 4.6, which share a language model of linear and full attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers
from tiny import TEXT, fast_tokenizer, louder, numbered
from tiny_qwen import QWEN_FIRST, QWEN_TEMPLATE, QWEN_TOKENS, write_processor

FIRST_3_5 = 248044
"""ms-swift's template of Qwen3.5 names the ids 248056 and 248057 for image and video: with the
older layout it would train, each image being one token."""
HYBRID: dict[str, Any] = {
    **TEXT,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e6,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
        "partial_rotary_factor": 0.25,
    },
    "tie_word_embeddings": True,
}
MINICPM_TOKENS = "<image> </image> <slice> </slice> <image_id> </image_id> <think> </think>".split()


def build(out: Path, family: str) -> transformers.PreTrainedModel:
    """Write tokenizer and processor, and make the model."""
    model = {"qwen3_5": _qwen3_5, "minicpmv4_6": _minicpm}[family](out)
    louder(model)
    return model


def _qwen3_5(out: Path) -> transformers.PreTrainedModel:
    ids = numbered(QWEN_TOKENS, FIRST_3_5)
    write_processor(out, "qwen3_vl", FIRST_3_5)
    config = transformers.Qwen3_5Config(
        text_config={
            **HYBRID,
            "vocab_size": 248320,
            "bos_token_id": FIRST_3_5,
            "eos_token_id": FIRST_3_5 + 2,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "in_channels": 3,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 32,
            "num_position_embeddings": 64,
        },
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        tie_word_embeddings=True,
    )
    return transformers.Qwen3_5ForConditionalGeneration(config)


def _minicpm(out: Path) -> transformers.PreTrainedModel:
    """`insert_layer_id` must lie below the number of layers, else one merger never runs; without
    the two token ids images would be ignored."""
    names = [*QWEN_TOKENS, *MINICPM_TOKENS]
    ids = numbered(names, QWEN_FIRST)
    tokenizer = fast_tokenizer(
        ids,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens={
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "image_start_token": "<image>",
            "image_end_token": "</image>",
            "slice_start_token": "<slice>",
            "slice_end_token": "</slice>",
            "image_id_start_token": "<image_id>",
            "image_id_end_token": "</image_id>",
        },
    )
    processor = transformers.MiniCPMV4_6Processor(
        transformers.MiniCPMV4_6ImageProcessor(patch_size=14),
        transformers.MiniCPMV4_6VideoProcessor(patch_size=14),
        tokenizer,
        chat_template=QWEN_TEMPLATE,
    )
    processor.save_pretrained(out)
    config = transformers.MiniCPMV4_6Config(
        text_config={
            "model_type": "qwen3_5_text",
            **HYBRID,
            "vocab_size": 151936,
            "bos_token_id": QWEN_FIRST,
            "eos_token_id": QWEN_FIRST + 2,
        },
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "image_size": 224,
            "patch_size": 14,
        },
        insert_layer_id=0,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        tie_word_embeddings=True,
    )
    return transformers.MiniCPMV4_6ForConditionalGeneration(config)
