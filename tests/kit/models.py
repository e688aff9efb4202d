"""Tiny random checkpoints, built offline by the environment that will train them.

    python tests/kit/models.py OUT qwen2_vl|qwen2_5_vl|qwen3_vl|llava

Weights come from a fixed seed. The vocabulary of the Qwen families cannot shrink: ms-swift's
templates name token ids, so its tokenizer has 270 tokens with a hole below the special ones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models

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
CONTENT = (
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}IMAGE{% elif c['type'] == 'video' %}VIDEO"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}"
)
QWEN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    + CONTENT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>").replace(
        "VIDEO", "<|vision_start|><|video_pad|><|vision_end|>"
    )
    + "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAVA_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: "
    + CONTENT.replace("IMAGE", "<image>")
    + "</s>\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
LOUDER = 4
"""The usual 0.02 makes attention in a model this small uniform: gradients of q and k drown in
rounding, and then nothing could be said about them."""
PROCESSORS = {
    "qwen2_vl": "Qwen2VLProcessor",
    "qwen2_5_vl": "Qwen2_5_VLProcessor",
    "qwen3_vl": "Qwen3VLProcessor",
}
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "attention_dropout": 0.0,
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


def build(out: Path, family: str) -> None:
    """Write model, tokenizer and processor of one family into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = _llava(out) if family == "llava" else _qwen(out, family)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(LOUDER)
        if OLD and family != "llava":
            _say_something(model)
    model.save_pretrained(out)


def _say_something(model: transformers.PreTrainedModel) -> None:
    """ms-swift 3.x decodes what GRPO generates and encodes it again: ids of the vocabulary's hole
    would vanish, and equal (empty) completions have gradients that cancel. With rows of zero they
    have the logit 0, below the better half of the real tokens, which sampling then draws from."""
    model.get_input_embeddings().weight[256:QWEN_FIRST] = 0.0


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def _bytes_tokenizer(special: list[str], first: int) -> Tokenizer:
    """One token per byte, and the special ones from id `first` on."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(alphabet)}
    vocabulary |= {token: first + number for number, token in enumerate(special)}
    tokenizer = Tokenizer(tokenizer_models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens = [AddedToken(token, special=True, normalized=False) for token in special]
    tokenizer.add_special_tokens(tokens)
    return tokenizer


def _qwen(out: Path, family: str) -> transformers.PreTrainedModel:
    tokenizer = _bytes_tokenizer(QWEN_TOKENS, QWEN_FIRST)
    tokenizer.save(str(out / "tokenizer.json"))
    _json(out / "vocab.json", tokenizer.get_vocab())
    (out / "merges.txt").write_text("#version: 0.2\n")
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    added = {
        str(QWEN_FIRST + number): {"content": token, "special": True, **plain}
        for number, token in enumerate(QWEN_TOKENS)
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
    return _qwen_model(family, patch)


def _qwen_model(family: str, patch: int) -> transformers.PreTrainedModel:
    names = {
        "qwen2_vl": "Qwen2VL",
        "qwen2_5_vl": "Qwen2_5_VL",
        "qwen3_vl": "Qwen3VL",
    }
    config_class = getattr(transformers, f"{names[family]}Config")
    model_class = getattr(transformers, f"{names[family]}ForConditionalGeneration")
    vision = {**VISION[family], "patch_size": patch, "in_channels": 3, "in_chans": 3}
    ids = dict(QWEN_IDS, tie_word_embeddings=True)
    if int(transformers.__version__.split(".")[0]) >= 5:
        text = {**QWEN_TEXT, "rope_parameters": {**MROPE, "rope_theta": 1e6}}
        return model_class(config_class(text_config=text, vision_config=vision, **ids))
    text = {**QWEN_TEXT, "rope_theta": 1e6, "rope_scaling": {**MROPE, "type": "mrope"}}
    return model_class(config_class(**text, vision_config=vision, **ids))


def _llava(out: Path) -> transformers.PreTrainedModel:
    special = ["<unk>", "<s>", "</s>", "<pad>", "<image>"]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_bytes_tokenizer(special, 256),
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        model_max_length=4096,
        chat_template=LLAVA_TEMPLATE,
    )
    image = 260
    processor = transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessor(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        ),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=LLAVA_TEMPLATE,
    )
    processor.save_pretrained(out)
    text = transformers.LlamaConfig(
        **TEXT, vocab_size=320, bos_token_id=257, eos_token_id=258, pad_token_id=259
    )
    vision = transformers.CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
        projection_dim=32,
    )
    config = transformers.LlavaConfig(
        text_config=text, vision_config=vision, image_token_index=image, image_token_id=image
    )
    return transformers.LlavaForConditionalGeneration(config)


if __name__ == "__main__":
    build(Path(sys.argv[1]), sys.argv[2])
