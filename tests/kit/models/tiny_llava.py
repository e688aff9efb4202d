"""LLaVA-1.5, LLaVA-NeXT and LLaVA-OneVision: CLIP or SigLIP before Llama or Qwen2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers
from tiny import TEXT, VISION, content, fast_tokenizer, louder, numbered

SIDE, PATCH = 28, 14
PINPOINTS = [[28, 28], [28, 56], [56, 28], [56, 56]]
LLAMA = {"vocab_size": 320, "bos_token_id": 257, "eos_token_id": 258, "pad_token_id": 259}
IMAGE = 260
ENDOFTEXT = 151643
"""ms-swift's template of LLaVA-OneVision names Qwen2's id of the image token, 151646."""
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: "
    + content("<image>")
    + "</s>\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
"""TRL and scripts read it; ms-swift has templates of its own."""


def build(out: Path, family: str) -> transformers.PreTrainedModel:
    """Write tokenizer and processor, and make the model."""
    return {"llava": _llava, "llava_next": _next, "llava_onevision": _onevision}[family](out)


def _llava(out: Path) -> transformers.PreTrainedModel:
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    )
    tokenizer = _llama_tokenizer()
    tokenizer.chat_template = TEMPLATE
    processor = transformers.LlavaProcessor(
        images, tokenizer, **_features(), chat_template=TEMPLATE
    )
    processor.save_pretrained(out)
    config = transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(**TEXT, **LLAMA),
        vision_config=_clip(),
        image_token_index=IMAGE,
        image_token_id=IMAGE,
    )
    model = transformers.LlavaForConditionalGeneration(config)
    louder(model, below=float("inf"))
    return model


def _next(out: Path) -> transformers.PreTrainedModel:
    images = transformers.LlavaNextImageProcessor(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_grid_pinpoints=PINPOINTS,
    )
    transformers.LlavaNextProcessor(images, _llama_tokenizer(), **_features()).save_pretrained(out)
    config = transformers.LlavaNextConfig(
        text_config=transformers.LlamaConfig(**TEXT, **LLAMA),
        vision_config=_clip(),
        image_token_index=IMAGE,
        image_grid_pinpoints=PINPOINTS,
        image_seq_length=4,
    )
    model = transformers.LlavaNextForConditionalGeneration(config)
    louder(model)
    return model


def _onevision(out: Path) -> transformers.PreTrainedModel:
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<video>"]
    special = numbered(names, ENDOFTEXT)
    tokenizer = fast_tokenizer(special, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    size = {"height": SIDE, "width": SIDE}
    processor = transformers.LlavaOnevisionProcessor(
        transformers.LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=PINPOINTS),
        tokenizer,
        transformers.LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=4,
        vision_feature_select_strategy="full",
    )
    processor.save_pretrained(out)
    text = {key: value for key, value in TEXT.items() if key != "head_dim"}
    config = transformers.LlavaOnevisionConfig(
        text_config=transformers.Qwen2Config(
            **text,
            vocab_size=ENDOFTEXT + 5,
            eos_token_id=ENDOFTEXT + 2,
            pad_token_id=ENDOFTEXT,
            tie_word_embeddings=True,
        ),
        vision_config=transformers.SiglipVisionConfig(
            **VISION, image_size=SIDE, patch_size=PATCH, vision_use_head=False
        ),
        image_token_index=special["<image>"],
        video_token_index=special["<video>"],
        image_grid_pinpoints=PINPOINTS,
        tie_word_embeddings=True,
    )
    model = transformers.LlavaOnevisionForConditionalGeneration(config)
    louder(model)
    return model


def _llama_tokenizer() -> transformers.PreTrainedTokenizerFast:
    special = numbered(["<unk>", "<s>", "</s>", "<pad>", "<image>"], 256)
    return fast_tokenizer(
        special, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def _features() -> dict[str, Any]:
    """How many tokens an image becomes: its patches, and CLIP's class token is dropped."""
    return {
        "patch_size": PATCH,
        "vision_feature_select_strategy": "default",
        "num_additional_image_tokens": 1,
    }


def _clip() -> transformers.CLIPVisionConfig:
    return transformers.CLIPVisionConfig(
        **VISION, image_size=SIDE, patch_size=PATCH, projection_dim=32
    )
