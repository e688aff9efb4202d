"""InternVL as transformers has it: its own vision tower before Qwen2."""

from __future__ import annotations

from pathlib import Path

import transformers
from tiny import TEXT, VISION, fast_tokenizer, louder, numbered

SIDE, PATCH, TOKENS = 56, 14, 4
NAMES = "<|endoftext|> <|im_start|> <|im_end|> <img> </img> <IMG_CONTEXT> <video>".split()


def build(out: Path, family: str) -> transformers.PreTrainedModel:
    """Write tokenizer and processor, and make the model."""
    special = numbered(NAMES, 256)
    tokenizer = fast_tokenizer(
        special,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    )
    size = {"height": SIDE, "width": SIDE}
    processor = transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessor(size=size),
        tokenizer,
        transformers.InternVLVideoProcessor(size=size),
        image_seq_length=TOKENS,
    )
    processor.save_pretrained(out)
    text = {key: value for key, value in TEXT.items() if key != "head_dim"}
    config = transformers.InternVLConfig(
        text_config=transformers.Qwen2Config(
            **text,
            vocab_size=320,
            eos_token_id=special["<|im_end|>"],
            pad_token_id=special["<|endoftext|>"],
            tie_word_embeddings=True,
        ),
        vision_config={**VISION, "image_size": [SIDE, SIDE], "patch_size": [PATCH, PATCH]},
        image_token_id=special["<IMG_CONTEXT>"],
        image_seq_length=TOKENS,
    )
    model = transformers.InternVLForConditionalGeneration(config)
    louder(model)
    return model
