"""A config for a class: its default, or what released checkpoints have where the default breaks or
has no tower; with a smaller tower where that of all released ones is too large to copy."""

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

_DECODER = {"is_decoder": True, "add_cross_attention": True}
_MUSICGEN = {
    "text_encoder": {"model_type": "t5"},
    "audio_encoder": {"model_type": "encodec"},
    "decoder": {"is_decoder": True},
}
_QWEN2 = {
    "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "vocab_size": 152064,
}  # fmt: skip
_TALKER = {
    "accept_hidden_layer": 24, "num_code_groups": 16, "spatial_merge_size": 2, "text_config": {
        "shared_expert_intermediate_size": 768, "decoder_sparse_step": 1, "num_experts": 128,
        "moe_intermediate_size": 384, "num_experts_per_tok": 6, "norm_topk_prob": True,
    },
    "code_predictor_config": {"num_code_groups": 16},
}  # fmt: skip
_QWEN4_TEXT = {
    "indexer_n_heads": 16, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 2048,
    "indexer_compress_ratio": 4, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
        "mrope_interleaved": True, "mrope_section": [11, 11, 10],
    },
}  # fmt: skip
_T5GEMMA2 = {
    "hidden_size": 640, "intermediate_size": 2048, "num_hidden_layers": 18,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144,
    "query_pre_attn_scalar": 256, "sliding_window": 512,
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
    "CohereCompassForCausalLM": {
        "rope_parameters": {"full_attention": _THETA, "sliding_attention": _THETA},
    },
    "DeepseekOcr2ForConditionalGeneration": {
        "text_config": {
            "hidden_size": 1280, "num_hidden_layers": 12, "num_attention_heads": 10,
            "num_experts_per_tok": 6, "n_group": 1, "topk_group": 1,
            "mlp_layer_types": ["dense", *["sparse"] * 11],
        },
    },
    "Emu3ForConditionalGeneration": {
        "vq_config": {"base_channels": 32, "channel_multiplier": [1, 1, 1, 1], "hidden_size": 32},
        "vocabulary_map": {
            "<image>": 151851, "<|extra_200|>": 151846,
            **{f"<|visual token {n:06}|>": 151854 + n for n in range(32768)},
        },
    },
    "Gemma3nForConditionalGeneration": {
        "text_config": {
            "num_hidden_layers": 30, "intermediate_size": 512, "num_kv_shared_layers": 10,
            "vocab_size": 1280, "vocab_size_per_layer_input": 1024,
        },
        "vision_config": {
            "model_args": {"channel_multiplier": 0.0625}, "vocab_offset": 1024,
        },
        "audio_config": {"vocab_offset": 1152},
        "image_token_id": 1025, "boi_token_id": 1026, "eoi_token_id": 1027,
        "audio_token_id": 1153, "boa_token_id": 1154, "eoa_token_id": 1155,
    },
    "Gemma4ForConditionalGeneration": {"vision_config": {}, "audio_config": {}},
    "Gemma4UnifiedForConditionalGeneration": {"vision_config": {}, "audio_config": {}},
    "Granite4VisionForConditionalGeneration": {
        "text_config": {"hidden_size": 2560, "num_hidden_layers": 40, "num_attention_heads": 40},
        "vision_config": {
            "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304,
            "num_hidden_layers": 27, "num_attention_heads": 16, "image_size": 384,
            "patch_size": 16,
        },
        "vision_feature_select_strategy": "full",
        "deepstack_layer_map": [[-19, 9], [-13, 6], [-7, 3], [-1, 0]],
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
    "MiniCPMOcrForConditionalGeneration": {"image_token_id": 248056, "video_token_id": 248057},
    "MiniCPMV4_7ForConditionalGeneration": _MINICPM,
    "Qwen2_5OmniForConditionalGeneration": {"thinker_config": _THINKER},
    "MoonshineStreamingForConditionalGeneration": {
        "num_key_value_heads": 8, "decoder_start_token_id": 1,
    },
    "MusicgenForConditionalGeneration": _MUSICGEN,
    "MusicgenMelodyForConditionalGeneration": _MUSICGEN,
    "NemotronH_Omni_Reasoning_V3": {
        "image_token_id": 18, "audio_token_id": 27, "video_token_id": 131081,
        "vision_config": {"video_temporal_patch_size": 2},
        "audio_config": {
            "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 8,
            "intermediate_size": 4096, "num_mel_bins": 128, "subsampling_factor": 8,
            "projection_hidden_size": 4096, "projection_bias": False,
        },
    },
    "PerceptionLMForConditionalGeneration": {
        "vision_config": {
            "architecture": "vit_pe_lang_large_patch14_448", "do_pooling": True,
            "model_args": {
                "embed_dim": 256, "num_heads": 4, "depth": 2, "img_size": [112, 112],
                "global_pool": "", "use_post_transformer_norm": False, "init_values": 0.1,
                "ref_feat_shape": [8, 8],
            },
        },
        "text_config": {"model_type": "llama", "hidden_size": 2048, "vocab_size": 128256},
        "vision_use_cls_token": True, "projector_pooling_ratio": 2,
    },
    "Qwen3OmniMoeThinkerForConditionalGeneration": _OMNI_IDS,
    "Qwen3OmniMoeForConditionalGeneration": {
        "thinker_config": _OMNI_IDS, "talker_config": _TALKER,
    },
    "Qwen3OmniMoeTalkerForConditionalGeneration": _TALKER,
    "Qwen4ExpForCausalLM": _QWEN4_TEXT,
    "Qwen4ExpForConditionalGeneration": {
        "text_config": _QWEN4_TEXT, "vision_config": {"out_hidden_size": 2048},
    },
    "SpeechEncoderDecoderModel": {
        "encoder": {"model_type": "wav2vec2"}, "decoder": {"model_type": "mbart", **_DECODER},
        "decoder_start_token_id": 0, "pad_token_id": 1,
    },
    "T5Gemma2ForConditionalGeneration": {
        "encoder": {
            "text_config": _T5GEMMA2, "mm_tokens_per_image": 256, "image_token_index": 256001,
            "vision_config": {
                "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                "num_attention_heads": 16, "image_size": 896, "patch_size": 14,
                "vision_use_head": False,
            },
        },
        "decoder": _T5GEMMA2,
    },
    "VibeVoiceAsrForConditionalGeneration": {
        "acoustic_tokenizer_encoder_config": {"num_filters": 4},
        "semantic_tokenizer_encoder_config": {"num_filters": 4, "hidden_size": 128},
        "text_config": {**_QWEN2},
    },
    "VibeVoiceForConditionalGeneration": {
        "audio_config": {"num_filters": 4},
        "semantic_model_config": {"num_filters": 4, "hidden_size": 128},
        "text_config": {**_QWEN2},
    },
    "VisionEncoderDecoderModel": {
        "encoder": {"model_type": "vit"}, "decoder": {"model_type": "trocr", **_DECODER},
        "decoder_start_token_id": 2, "pad_token_id": 1,
    },
}  # fmt: skip
NO_TEXT_ROW = {
    "BlipForConditionalGeneration", "BlipForQuestionAnswering", "Blip2ForConditionalGeneration",
    "GitForCausalLM", "IdeficsForVisionText2Text", "InstructBlipForConditionalGeneration",
    "InstructBlipVideoForConditionalGeneration", "Kosmos2ForConditionalGeneration",
    "PI0ForConditionalGeneration", "SeamlessM4TForSpeechToSpeech", "SeamlessM4TForSpeechToText",
    "SeamlessM4Tv2ForSpeechToSpeech", "SeamlessM4Tv2ForSpeechToText",
    "VoxtralRealtimeForConditionalGeneration",
}  # fmt: skip
"""Their forward asks for an image or a sound in every row: no ranks differ."""
SMALLER = {
    "Emu3ForConditionalGeneration", "Gemma3nForConditionalGeneration",
    "PerceptionLMForConditionalGeneration", "VibeVoiceAsrForConditionalGeneration",
    "VibeVoiceForConditionalGeneration",
}  # fmt: skip
"""Their towers are smaller here than any released: of a tower as released no copy below the limit
of weights can be made."""


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
