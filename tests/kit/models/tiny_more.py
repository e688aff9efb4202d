"""Qwen3, which sees nothing, and a Qwen2.5-VL of more layers than a rehearsal keeps."""

from __future__ import annotations

from pathlib import Path

import transformers
from tiny import TEXT, louder
from tiny_qwen import MROPE, QWEN_FIRST, QWEN_IDS, QWEN_TEXT, VISION, write_processor

LAYERS = 6
_IMAGES = ("preprocessor_config.json", "video_preprocessor_config.json")


def build(out: Path, family: str) -> transformers.PreTrainedModel:
    """Write tokenizer (and processor), and make the model."""
    patch = write_processor(out, "qwen2_5_vl")
    if family == "qwen3":
        for name in _IMAGES:
            (out / name).unlink(missing_ok=True)
        model = _qwen3()
    else:
        model = _deep(patch)
    louder(model, below=float("inf"))
    return model


def _qwen3() -> transformers.PreTrainedModel:
    ids = {"bos_token_id": QWEN_FIRST, "eos_token_id": QWEN_FIRST + 2}
    config = transformers.Qwen3Config(**TEXT, vocab_size=151936, tie_word_embeddings=True, **ids)
    return transformers.Qwen3ForCausalLM(config)


def _deep(patch: int) -> transformers.PreTrainedModel:
    vision = {**VISION["qwen2_5_vl"], "depth": LAYERS, "fullatt_block_indexes": [2, 5],
              "patch_size": patch, "in_channels": 3, "in_chans": 3}  # fmt: skip
    text = {**QWEN_TEXT, "num_hidden_layers": LAYERS,
            "rope_parameters": {**MROPE, "rope_theta": 1e6}}  # fmt: skip
    config = transformers.Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, **QWEN_IDS
    )
    return transformers.Qwen2_5_VLForConditionalGeneration(config)
