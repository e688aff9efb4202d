"""Which classes FSDP is to wrap: the blocks of a model's language part and of its tower.

Class names of transformers 4.49 to 5.6, by what the model's name has; the first that fits.
"""

from __future__ import annotations

import re

_LAYERS = (
    (r"qwen2[._]5[-_]?vl", "Qwen2_5_VLDecoderLayer,Qwen2_5_VLVisionBlock"),
    (r"qwen2[-_]?vl", "Qwen2VLDecoderLayer,Qwen2VLVisionBlock"),
    (r"qwen3[-_]?vl.{0,20}-a\d", "Qwen3VLMoeTextDecoderLayer,Qwen3VLMoeVisionBlock"),
    (r"qwen3[-_]?vl", "Qwen3VLTextDecoderLayer,Qwen3VLVisionBlock"),
    (r"idefics2", "MistralDecoderLayer,Idefics2EncoderLayer"),
    (r"idefics3", "LlamaDecoderLayer,Idefics3EncoderLayer"),
    (r"smolvlm", "LlamaDecoderLayer,SmolVLMEncoderLayer"),
    (r"gemma-3-(?:4|12|27)b", "Gemma3DecoderLayer,SiglipEncoderLayer"),
    (r"paligemma2", "Gemma2DecoderLayer,SiglipEncoderLayer"),
    (r"paligemma", "GemmaDecoderLayer,SiglipEncoderLayer"),
    (r"llava-onevision-qwen2", "Qwen2DecoderLayer,SiglipEncoderLayer"),
    (r"llava-1\.5", "LlamaDecoderLayer,CLIPEncoderLayer"),
    (
        r"llama-3\.2-(?:11|90)b-vision",
        "MllamaSelfAttentionDecoderLayer,MllamaCrossAttentionDecoderLayer,MllamaVisionEncoderLayer",
    ),
    (r"(?:^|/)qwen(?:2|2\.5)-(?!.{0,20}(?:audio|omni|vl))", "Qwen2DecoderLayer"),
    (r"(?:^|/)qwen3-\d{1,2}(?:\.\d)?b(?!-a)", "Qwen3DecoderLayer"),
    (r"(?:^|/)(?:meta-)?llama-(?:2|3|3\.1|3\.3)-\d{1,3}b", "LlamaDecoderLayer"),
    (r"\bllamaforcausallm", "LlamaDecoderLayer"),
    (r"\bqwen2forcausallm", "Qwen2DecoderLayer"),
    (r"\bqwen3forcausallm", "Qwen3DecoderLayer"),
    (r"\bmistralforcausallm", "MistralDecoderLayer"),
    (r"(?:^|/)mistral-7b", "MistralDecoderLayer"),
)


def of(model: str) -> str:
    """The classes, with a comma; "" of a model that is not known."""
    found = (classes for name, classes in _LAYERS if re.search(name, model, re.I))
    return next(found, "")
