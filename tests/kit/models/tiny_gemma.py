"""Gemma3 and PaliGemma: SigLIP before Gemma."""

from __future__ import annotations

from pathlib import Path

import transformers
from tiny import TEXT, VISION, content, fast_tokenizer, louder, numbered

SIDE, PATCH, TOKENS = 56, 14, 4
BOI = 255999
"""ms-swift's template of Gemma3 names the id of `<start_of_image>`."""
PLAIN = numbered(["<pad>", "<eos>", "<bos>", "<unk>"], 256)
NAMES = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
TURNS = (
    "<bos>{% for m in messages %}<start_of_turn>"
    "{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    + content("<start_of_image>")
    + "<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
IDS = {"pad_token_id": 256, "eos_token_id": 257, "bos_token_id": 258}


def build(out: Path, family: str) -> transformers.PreTrainedModel:
    """Write tokenizer and processor, and make the model."""
    model = {"gemma3": _gemma3, "paligemma": _paligemma}[family](out)
    louder(model)
    return model


def _gemma3(out: Path) -> transformers.PreTrainedModel:
    turns = numbered(["<start_of_turn>", "<end_of_turn>"], 260)
    image = numbered(["<start_of_image>", "<end_of_image>", "<image_soft_token>"], BOI)
    tokenizer = fast_tokenizer(
        {**PLAIN, **turns, **image},
        **NAMES,
        extra_special_tokens={
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
    )
    tokenizer.chat_template = TURNS
    images = transformers.Gemma3ImageProcessor(size={"height": SIDE, "width": SIDE})
    transformers.Gemma3Processor(
        images, tokenizer, image_seq_length=TOKENS, chat_template=TURNS
    ).save_pretrained(out)
    config = transformers.Gemma3Config(
        text_config=transformers.Gemma3TextConfig(
            **TEXT,
            **IDS,
            vocab_size=BOI + 65,
            query_pre_attn_scalar=16,
            layer_types=["sliding_attention", "full_attention"],
        ),
        vision_config=_siglip(),
        mm_tokens_per_image=TOKENS,
        boi_token_index=BOI,
        eoi_token_index=BOI + 1,
        image_token_index=BOI + 2,
    )
    return transformers.Gemma3ForConditionalGeneration(config)


def _paligemma(out: Path) -> transformers.PreTrainedModel:
    """The processor adds 1024 places and 128 segments to the tokenizer: ids 261 to 1412."""
    tokenizer = fast_tokenizer(
        {**PLAIN, "<image>": 260}, **NAMES, extra_special_tokens={"image_token": "<image>"}
    )
    images = transformers.SiglipImageProcessor(size={"height": SIDE, "width": SIDE})
    images.image_seq_length = (SIDE // PATCH) ** 2
    transformers.PaliGemmaProcessor(images, tokenizer).save_pretrained(out)
    config = transformers.PaliGemmaConfig(
        text_config=transformers.GemmaConfig(**TEXT, **IDS, vocab_size=1472),
        vision_config=_siglip(),
        image_token_index=260,
        projection_dim=32,
        hidden_size=32,
        vocab_size=1472,
    )
    return transformers.PaliGemmaForConditionalGeneration(config)


def _siglip() -> transformers.SiglipVisionConfig:
    return transformers.SiglipVisionConfig(
        **VISION, image_size=SIDE, patch_size=PATCH, vision_use_head=False
    )
