"""LLaMA-Factory's template of a model that sees or hears, by the model's name.

As its table of models has it in 0.9.5 (`extras/constants.py`).
"""

from __future__ import annotations

import re

_TEMPLATES = {
    r"qwen3-omni.{0,30}thinking": "qwen3_omni",
    r"qwen3-omni": "qwen3_omni_nothink",
    r"qwen2\.5-omni": "qwen2_omni",
    r"qwen3\.5-\d": "qwen3_5",
    r"qwen3-vl.{0,30}thinking": "qwen3_vl",
    r"qwen3-vl": "qwen3_vl_nothink",
    r"qwen2(?:\.5)?-vl|qvq-|ui-tars": "qwen2_vl",
    r"qwen2-audio": "qwen2_audio",
    r"minicpm-o": "minicpm_o",
    r"minicpm-v-4[.-]6": "minicpm_v_4_6",
    r"minicpm-v-(?:2[.-]6|4)": "minicpm_v",
    r"internvl[\d._]{1,4}-.{0,30}hf$": "intern_vl",
    r"llava-(?:v1\.6|next)-(?:\w{0,4}-)?mistral": "llava_next_mistral",
    r"llava-(?:v1\.6|next)-(?:\w{0,4}-)?vicuna": "llava_next",
    r"llava-(?:v1\.6-34b|next-34b)": "llava_next_yi",
    r"llava-next-(?:72b|110b)": "llava_next_qwen",
    r"llama3-llava-next": "llava_next_llama3",
    r"video-llava": "video_llava",
    r"llava-1\.5": "llava",
    r"llama-3\.2-\d{2}b-vision": "mllama",
    r"llama-4-": "llama4",
    r"gemma-3n-": "gemma3n",
    r"gemma-3-(?:4|12|27)b": "gemma3",
    r"paligemma": "paligemma",
    r"pixtral": "pixtral",
    r"glm-4\.1v": "glm4v",
    r"glm-4\.[56]v": "glm4_5v",
    r"kimi-vl": "kimi_vl",
    r"yi-vl": "yi_vl",
}

_TEXT = re.compile(r"gemma-3-(?:270m|1b)(?!\w)")


def text_alone(model: str) -> str:
    """The template of a model of text alone whose kin see, "" for another one."""
    return "gemma" if _TEXT.search(model.lower().replace("_", "-")) else ""


def seeing(model: str) -> str:
    """Its name, "" where the model's is not known."""
    name = model.rstrip("/").rpartition("/")[2].lower().replace("_", "-")
    return next((t for told, t in _TEMPLATES.items() if re.search(told, name)), "")
