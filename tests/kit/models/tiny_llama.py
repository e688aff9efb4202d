"""Idefics3, whose images become tokens, and Mllama, whose text looks at them across."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tiny import TEXT, VISION, fast_tokenizer, louder, numbered

PATCH = 14
IDEFICS_IMAGE = 128257
"""ms-swift's template of Idefics3 names the id of `<image>`."""


def build(out: Path, family: str) -> transformers.PreTrainedModel:
    """Write tokenizer and processor, and make the model."""
    model = {"idefics3": _idefics3, "mllama": _mllama}[family](out)
    louder(model)
    return model


def _idefics3(out: Path) -> transformers.PreTrainedModel:
    side = 56
    special = numbered(["<|begin_of_text|>", "<|end_of_text|>", "<|pad|>", "<global-img>"], 256)
    special |= numbered(
        ["<fake_token_around_image>", "<image>", "<end_of_utterance>"], IDEFICS_IMAGE - 1
    )
    tokenizer = fast_tokenizer(
        special,
        bos_token="<|begin_of_text|>",
        eos_token="<|end_of_text|>",
        pad_token="<|pad|>",
        unk_token="<|end_of_text|>",
    )
    images = transformers.Idefics3ImageProcessor(
        do_image_splitting=False,
        size={"longest_edge": side},
        max_image_size={"longest_edge": side},
    )
    transformers.Idefics3Processor(images, tokenizer, image_seq_len=4).save_pretrained(out)
    config = transformers.Idefics3Config(
        text_config=transformers.LlamaConfig(
            **TEXT, vocab_size=IDEFICS_IMAGE + 3, bos_token_id=256, eos_token_id=257
        ),
        vision_config={**VISION, "image_size": side, "patch_size": PATCH},
        image_token_id=IDEFICS_IMAGE,
        scale_factor=2,
        pad_token_id=258,
    )
    return transformers.Idefics3ForConditionalGeneration(config)


def _mllama(out: Path) -> transformers.PreTrainedModel:
    """The middle one of three layers is cross attention; its gates, zero in a new model and then
    without any gradient behind them, stand open. The image's id is the first one that the
    language model cannot say, as in the real checkpoints."""
    side = 28
    names = ["<|begin_of_text|>", "<|eot_id|>", "<|pad|>", "<|python_tag|>"]
    special = numbered([*names, "<|start_header_id|>", "<|end_header_id|>"], 256)
    tokenizer = fast_tokenizer(
        {**special, "<|image|>": 320},
        bos_token="<|begin_of_text|>",
        eos_token="<|eot_id|>",
        pad_token="<|pad|>",
        extra_special_tokens={"image_token": "<|image|>"},
    )
    images = transformers.MllamaImageProcessor(
        size={"height": side, "width": side}, max_image_tiles=4
    )
    transformers.MllamaProcessor(images, tokenizer).save_pretrained(out)
    text = {key: TEXT[key] for key in TEXT if key not in ("head_dim", "attention_dropout")}
    config = transformers.MllamaConfig(
        text_config={
            **text,
            "num_hidden_layers": 3,
            "cross_attention_layers": [1],
            "vocab_size": 320,
            "bos_token_id": 256,
            "eos_token_id": 257,
            "pad_token_id": 258,
        },
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 2,
            "image_size": side,
            "patch_size": PATCH,
            "max_num_tiles": 4,
            "intermediate_layers_indices": [0, 1],
            "vision_output_dim": 96,
        },
        image_token_index=320,
    )
    model = transformers.MllamaForConditionalGeneration(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "gate" in name and weight.dim() == 1:
                weight.fill_(0.5)
    return model
