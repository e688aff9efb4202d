"""What a model's parts are called in its own code: the vision tower, a mixture's block of experts.

By the model's name or class, where the log tells one; "" for a model that is not known here.
"""

from __future__ import annotations

import re

from vlmguard.explain.logfacts import Facts

# Longer names first: the first that fits counts.
_TOWERS = (
    (r"minicpm-?(?:v|o|llama3-v)", "vpm"),
    (r"qwen\d?(?:\.5)?-?(?:vl|omni)|qvq|glm-?4\.?\d?v", "visual"),
    (r"llava-?next|llava-?onevision|llava-.{1,40}-hf|paligemma|gemma-?3|pixtral|kimi-?vl",
     "vision_tower"),
    (r"internvl|mllama|llama-3\.2-\d{2}b-vision|idefics[23]|smolvlm", "vision_model"),
)  # fmt: skip
_BLOCKS = (
    (r"qwen3-?omni.{0,20}(?:moe|a3b)", "Qwen3OmniMoeThinkerTextSparseMoeBlock"),
    (r"qwen3-?vl.{0,8}(?:moe|a3b|a22b)", "Qwen3VLMoeTextSparseMoeBlock"),
    (r"qwen3.{0,8}(?:moe|a3b|a22b)", "Qwen3MoeSparseMoeBlock"),
    (r"qwen(?:1\.5|2).{0,8}(?:moe|a14b)", "Qwen2MoeSparseMoeBlock"),
    (r"mixtral", "MixtralSparseMoeBlock"),
    (r"deepseek.?v2", "DeepseekV2MoE"),
    (r"deepseek.?v3|kimi-?vl", "DeepseekV3MoE"),
    (r"glm-?4\.?\d?v.{0,4}moe|glm-4\.5v", "Glm4vMoeTextMoE"),
    (r"olmoe", "OlmoeSparseMoeBlock"),
)
_MIXED = re.compile(r"(?i)moe|mixtral|-a\d{1,2}b\b|deepseek.?v[23]")


def names(facts: Facts) -> str:
    """The model and its class, as the log has them."""
    return f"{facts.model} {facts.said.get('architecture', '')}"


def mixed(facts: Facts) -> bool:
    """Whether the model is a mixture of experts."""
    return _MIXED.search(names(facts)) is not None or "moe" in facts.message.lower()


def tower(facts: Facts) -> str:
    """The attribute of the model that holds its vision tower."""
    return _first(_TOWERS, names(facts))


def experts(facts: Facts) -> str:
    """The class of the block that chooses among experts."""
    return _first(_BLOCKS, names(facts))


def _first(table: tuple[tuple[str, str], ...], said: str) -> str:
    return next((value for pattern, value in table if re.search(pattern, said, re.I)), "")
