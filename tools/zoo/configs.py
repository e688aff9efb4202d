"""A config for a class: its default, or what released checkpoints have where the default breaks or
has no tower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.kit.full_configs import CONFIGS

_THETA = {"rope_type": "default", "rope_theta": 10000.0}
_MINICPM = CONFIGS["MiniCPMV4_6ForConditionalGeneration"]
_THINKER = CONFIGS["Qwen2_5OmniThinkerForConditionalGeneration"]
_OMNI_IDS = {
    "vision_start_token_id": 151652, "vision_end_token_id": 151653, "audio_start_token_id": 151669,
    "audio_end_token_id": 151670, "image_token_id": 151655, "video_token_id": 151656,
    "audio_token_id": 151675,
}  # fmt: skip


def _codes(number: int, first: int) -> dict[str, int]:
    """Chameleon's names of image tokens: digits as letters."""
    letters = str.maketrans("0123456789", "ABCDEFGHIJ")
    return {f"IMGIMG{str(n).translate(letters)}Z": first + n for n in range(number)}


OVERRIDES: dict[str, dict[str, Any]] = {
    "AriaForConditionalGeneration": {
        "vision_config": {
            "model_type": "idefics3_vision", "image_size": 980, "patch_size": 14,
            "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
            "num_attention_heads": 16,
        },
    },
    "ChameleonForConditionalGeneration": {
        "vocabulary_map": {"<image>": 8711, **_codes(8192, 4)},
    },
    "CohereCompassForConditionalGeneration": {
        "text_config": {
            "rope_parameters": {"full_attention": _THETA, "sliding_attention": _THETA},
        },
    },
    "DeepseekOcr2ForConditionalGeneration": {
        "text_config": {
            "hidden_size": 1280, "num_hidden_layers": 12, "num_attention_heads": 10,
            "num_experts_per_tok": 6, "n_group": 1, "topk_group": 1,
            "mlp_layer_types": ["dense", *["sparse"] * 11],
        },
    },
    "Gemma4ForConditionalGeneration": {"vision_config": {}, "audio_config": {}},
    "Gemma4UnifiedForConditionalGeneration": {"vision_config": {}, "audio_config": {}},
    "Granite4VisionForConditionalGeneration": {
        "text_config": {}, "deepstack_layer_map": [[-19, 9], [-13, 6], [-7, 3], [-1, 0]],
        "downsample_rate": "4/8",
    },
    "Step3p7ForConditionalGeneration": {"text_config": {"sliding_window": 512}},
    "HunYuanVLForConditionalGeneration": {
        "text_config": {
            "head_dim": 128, "vocab_size": 120818,
            "rope_parameters": {
                "rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0,
            },
        },
    },
    "JanusForConditionalGeneration": {
        "text_config": {"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 16},
    },
    "MiniCPMV4_7ForConditionalGeneration": _MINICPM,
    "Qwen2_5OmniForConditionalGeneration": {"thinker_config": _THINKER},
    "Qwen3OmniMoeThinkerForConditionalGeneration": _OMNI_IDS,
}  # fmt: skip
NO_TEXT_ROW = {
    "BlipForConditionalGeneration", "BlipForQuestionAnswering", "Blip2ForConditionalGeneration",
    "GitForCausalLM", "IdeficsForVisionText2Text", "InstructBlipForConditionalGeneration",
    "InstructBlipVideoForConditionalGeneration", "Kosmos2ForConditionalGeneration",
    "PI0ForConditionalGeneration",
}  # fmt: skip
"""Their forward asks for an image in every row: no ranks differ."""


def config(kind: Any) -> Any:
    """The config of a full-size model of this class."""
    name = kind.__name__
    fields = OVERRIDES.get(name, CONFIGS.get(name, {}))
    return kind.config_class(**_plain(fields))


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Copied to the bottom: classes change what they are given."""
    return {
        key: _plain(value) if isinstance(value, Mapping) else value for key, value in fields.items()
    }
