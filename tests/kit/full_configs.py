"""Configs as published models have them, at their full size: what observation has to cope with.

Class name → the config's own fields. Written down from the models' config.json files.
"""

from __future__ import annotations

from typing import Any

_QWEN2 = {
    "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 32768,
    "max_window_layers": 28, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
    "sliding_window": 32768, "use_sliding_window": False, "vocab_size": 152064,
    "bos_token_id": 151643, "eos_token_id": 151645, "tie_word_embeddings": False,
}  # fmt: skip
_QWEN_IDS = {
    "vision_start_token_id": 151652, "vision_end_token_id": 151653,
    "image_token_id": 151655, "video_token_id": 151656,
}  # fmt: skip
_MROPE = {"type": "mrope", "mrope_section": [16, 24, 24]}
_QWEN2_5_VISION = {
    "depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420,
    "num_heads": 16, "in_chans": 3, "out_hidden_size": 3584, "patch_size": 14,
    "spatial_merge_size": 2, "spatial_patch_size": 14, "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2, "temporal_patch_size": 2,
}  # fmt: skip
_QWEN3_VISION = {
    "deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_act": "gelu_pytorch_tanh",
    "hidden_size": 1152, "in_channels": 3, "intermediate_size": 4304, "num_heads": 16,
    "num_position_embeddings": 2304, "out_hidden_size": 4096, "patch_size": 16,
    "spatial_merge_size": 2, "temporal_patch_size": 2,
}  # fmt: skip
_QWEN3_TEXT = {
    "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 262144,
    "rope_scaling": {
        "mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default",
    },
    "rope_theta": 5000000, "vocab_size": 151936, "bos_token_id": 151643, "eos_token_id": 151645,
}  # fmt: skip
_LLAMA2 = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "max_position_embeddings": 4096, "vocab_size": 32064,
    "rms_norm_eps": 1e-5, "pad_token_id": 32001,
}  # fmt: skip
_CLIP_LARGE = {
    "model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336,
    "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
    "patch_size": 14, "projection_dim": 768, "vocab_size": 32000,
}  # fmt: skip
_SIGLIP = {
    "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304,
    "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
}  # fmt: skip
_LLAMA3 = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
}  # fmt: skip
_PIXTRAL = {
    "model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "head_dim": 64,
    "num_attention_heads": 16, "num_hidden_layers": 24, "image_size": 1024, "patch_size": 14,
    "rope_theta": 10000.0,
}  # fmt: skip
_MISTRAL = {
    "model_type": "mistral", "hidden_size": 5120, "intermediate_size": 14336, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 40,
    "max_position_embeddings": 131072, "vocab_size": 131072, "rope_theta": 1000000.0,
}  # fmt: skip
_PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
_WHISPER = {
    "num_mel_bins": 128, "encoder_layers": 32, "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120, "d_model": 1280, "max_source_positions": 1500,
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "Qwen2VLForConditionalGeneration": {
        **_QWEN2, **_QWEN_IDS, "vision_token_id": 151654, "rope_scaling": _MROPE,
        "vision_config": {
            "depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "in_chans": 3,
            "hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2,
            "spatial_patch_size": 14, "temporal_patch_size": 2,
        },
    },
    "Qwen2_5_VLForConditionalGeneration": {
        **_QWEN2, **_QWEN_IDS, "rope_scaling": _MROPE, "vision_config": _QWEN2_5_VISION,
    },
    "Qwen3VLForConditionalGeneration": {
        **_QWEN_IDS, "text_config": _QWEN3_TEXT, "vision_config": _QWEN3_VISION,
        "tie_word_embeddings": False,
    },
    "Qwen3VLMoeForConditionalGeneration": {
        **_QWEN_IDS, "vision_config": {**_QWEN3_VISION, "out_hidden_size": 2048},
        "text_config": {
            **_QWEN3_TEXT, "hidden_size": 2048, "num_hidden_layers": 48, "num_key_value_heads": 4,
            "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": 768,
            "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True,
        },
    },
    "Qwen3_5ForConditionalGeneration": {
        "vision_start_token_id": 248053, "vision_end_token_id": 248054, "image_token_id": 248056,
        "video_token_id": 248057,
        "vision_config": {**_QWEN3_VISION, "deepstack_visual_indexes": []},
        "text_config": {
            "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32,
            "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
            "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
            "vocab_size": 248320, "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                "mrope_interleaved": True, "mrope_section": [11, 11, 10],
            },
        },
    },
    "LlavaForConditionalGeneration": {
        "text_config": _LLAMA2, "vision_config": _CLIP_LARGE, "image_token_index": 32000,
        "image_seq_length": 576, "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default", "projector_hidden_act": "gelu",
    },
    "LlavaNextForConditionalGeneration": {
        "text_config": {
            **_LLAMA3, "model_type": "mistral", "vocab_size": 32064, "sliding_window": None,
        },
        "vision_config": _CLIP_LARGE, "image_token_index": 32000, "image_seq_length": 576,
        "image_grid_pinpoints": _PINPOINTS, "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default", "use_image_newline_parameter": True,
    },
    "LlavaOnevisionForConditionalGeneration": {
        "text_config": {**_QWEN2, "model_type": "qwen2", "vocab_size": 152000},
        "vision_config": {**_SIGLIP, "num_hidden_layers": 26, "image_size": 384},
        "image_grid_pinpoints": [[384 * x, 384 * y] for x in range(1, 7) for y in range(1, 7)],
        "image_token_index": 151646, "video_token_index": 151647, "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full", "vision_aspect_ratio": "anyres_max_9",
    },
    "Gemma3ForConditionalGeneration": {
        "boi_token_index": 255999, "eoi_token_index": 256000, "image_token_index": 262144,
        "mm_tokens_per_image": 256, "vision_config": {**_SIGLIP, "image_size": 896},
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
            "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4,
            "head_dim": 256, "sliding_window": 1024, "query_pre_attn_scalar": 256,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "vocab_size": 262208,
        },
    },
    "PaliGemmaForConditionalGeneration": {
        "image_token_index": 257152, "projection_dim": 2048, "hidden_size": 2048,
        "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
        "text_config": {
            "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384,
            "num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1,
            "num_image_tokens": 256, "vocab_size": 257216,
        },
        "vision_config": {
            **_SIGLIP, "image_size": 224, "projection_dim": 2048, "num_image_tokens": 256,
        },
    },
    "Idefics3ForConditionalGeneration": {
        "image_token_id": 128257, "scale_factor": 2, "pad_token_id": 128002,
        "text_config": {**_LLAMA3, "vocab_size": 128259, "pad_token_id": 128002},
        "vision_config": {
            "hidden_size": 1152, "image_size": 364, "intermediate_size": 4304,
            "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14,
        },
    },
    "SmolVLMForConditionalGeneration": {
        "image_token_id": 49153, "scale_factor": 3, "pad_token_id": 2,
        "text_config": {
            "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
            "num_hidden_layers": 24, "num_attention_heads": 32, "vocab_size": 49155,
            "pad_token_id": 2,
        },
        "vision_config": {
            "hidden_size": 1152, "image_size": 378, "intermediate_size": 4304,
            "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14,
        },
    },
    "MllamaForConditionalGeneration": {
        "image_token_index": 128256,
        "text_config": {
            "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 40,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
            "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38], "pad_token_id": 128004,
            "rope_theta": 500000.0, "rope_scaling": {
                "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3",
            },
        },
        "vision_config": {
            "hidden_size": 1280, "intermediate_size": 5120, "attention_heads": 16,
            "num_hidden_layers": 32, "num_global_layers": 8, "image_size": 560, "patch_size": 14,
            "intermediate_layers_indices": [3, 7, 15, 23, 30], "vision_output_dim": 7680,
            "max_num_tiles": 4, "supported_aspect_ratios": [
                [1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1],
            ],
        },
    },
    "InternVLForConditionalGeneration": {
        "image_token_id": 151667, "image_seq_length": 256, "downsample_ratio": 0.5,
        "vision_feature_layer": -1, "vision_feature_select_strategy": "default",
        "text_config": {**_QWEN2, "model_type": "qwen2", "vocab_size": 151674},
        "vision_config": {
            "hidden_size": 1024, "image_size": [448, 448], "intermediate_size": 4096,
            "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": [14, 14],
        },
    },
    "MiniCPMV4_6ForConditionalGeneration": {
        "image_token_id": 248056, "video_token_id": 248057, "insert_layer_id": 6,
        "vision_config": {
            "hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16,
            "num_hidden_layers": 27, "image_size": 980, "patch_size": 14,
        },
        "text_config": {
            "model_type": "qwen3_5_text", "hidden_size": 4096, "intermediate_size": 12288,
            "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4,
            "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
            "vocab_size": 248320, "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                "mrope_interleaved": True, "mrope_section": [11, 11, 10],
            },
        },
    },
    "Glm4vForConditionalGeneration": {
        "image_start_token_id": 151339, "image_end_token_id": 151340,
        "video_start_token_id": 151341, "video_end_token_id": 151342,
        "image_token_id": 151343, "video_token_id": 151344,
        "text_config": {
            "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 40,
            "num_attention_heads": 32, "num_key_value_heads": 2, "vocab_size": 151552,
            "partial_rotary_factor": 0.5, "rope_theta": 10000.0,
            "rope_scaling": {"rope_type": "default", "mrope_section": [8, 12, 12]},
        },
        "vision_config": {
            "hidden_size": 1536, "depth": 24, "num_heads": 12, "in_channels": 3,
            "intermediate_size": 13696, "out_hidden_size": 4096, "image_size": 336,
            "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
        },
    },
    "Mistral3ForConditionalGeneration": {
        "image_token_index": 10, "spatial_merge_size": 2, "vision_feature_layer": -1,
        "text_config": {**_MISTRAL, "intermediate_size": 32768},
        "vision_config": {**_PIXTRAL, "image_size": 1540},
    },
    "Pixtral: LlavaForConditionalGeneration": {
        "image_token_index": 10, "vision_feature_layer": -1, "image_seq_length": 1,
        "vision_feature_select_strategy": "full", "text_config": _MISTRAL,
        "vision_config": _PIXTRAL,
    },
    "AyaVisionForConditionalGeneration": {
        "image_token_index": 255036, "downsample_factor": 2, "adapter_layer_norm_eps": 1e-6,
        "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
        "alignment_intermediate_size": 36864,
        "text_config": {
            "model_type": "cohere2", "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "sliding_window": 4096, "vocab_size": 256000,
        },
        "vision_config": {**_SIGLIP, "image_size": 364},
    },
    "Qwen2AudioForConditionalGeneration": {
        "audio_token_index": 151646,
        "audio_config": {"model_type": "qwen2_audio_encoder", **_WHISPER},
        "text_config": {
            **_QWEN2, "model_type": "qwen2", "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "vocab_size": 156032,
        },
    },
    "Qwen2_5OmniThinkerForConditionalGeneration": {
        "audio_token_index": 151646, "image_token_index": 151655, "video_token_index": 151656,
        "vision_start_token_id": 151652, "vision_end_token_id": 151653,
        "audio_start_token_id": 151647, "audio_end_token_id": 151648, "user_token_id": 872,
        "position_id_per_seconds": 25, "seconds_per_chunk": 2,
        "text_config": {
            **_QWEN2, "rope_scaling": {"rope_type": "default", "mrope_section": [16, 24, 24]},
        },
        "vision_config": _QWEN2_5_VISION,
        "audio_config": {**_WHISPER, "n_window": 100, "output_dim": 3584},
    },
    "VoxtralForConditionalGeneration": {
        "audio_token_id": 24, "audio_config": {**_WHISPER, "model_type": "voxtral_encoder"},
        "text_config": {**_LLAMA3, "vocab_size": 131072, "head_dim": 128},
    },
    "Llama4ForConditionalGeneration": {
        "boi_token_index": 200080, "eoi_token_index": 200081, "image_token_index": 200092,
        "text_config": {
            "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
            "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
            "head_dim": 128, "num_local_experts": 16, "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 1, "vocab_size": 202048, "attention_chunk_size": 8192,
        },
        "vision_config": {
            "hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34,
            "num_attention_heads": 16, "image_size": 336, "patch_size": 14,
            "projector_input_dim": 4096, "projector_output_dim": 4096, "vision_output_dim": 4096,
            "pixel_shuffle_ratio": 0.5,
        },
    },
    "Kimi_K25ForConditionalGeneration": {
        "image_token_id": 163605, "pad_token_id": 163839,
        "text_config": {
            "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
            "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64,
            "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": 1536,
            "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_group": 1,
            "topk_group": 1, "n_routed_experts": 384, "num_experts_per_tok": 8,
            "n_shared_experts": 1, "moe_intermediate_size": 2048, "vocab_size": 163840,
        },
    },
    "Idefics2ForConditionalGeneration": {
        "image_token_id": 32001,
        "text_config": {
            **_LLAMA3, "model_type": "mistral", "vocab_size": 32003, "pad_token_id": 0,
        },
        "vision_config": {**_SIGLIP, "model_type": "idefics2_vision", "image_size": 980},
        "perceiver_config": {
            "model_type": "idefics2_perceiver", "hidden_size": 4096, "num_key_value_heads": 4,
            "resampler_depth": 3, "resampler_head_dim": 96, "resampler_n_heads": 16,
            "resampler_n_latents": 64,
        },
    },
}  # fmt: skip


def make(name: str) -> object:
    """The full-size model of that class, without memory: what an adapter finds before weights
    matter."""
    import torch
    import transformers

    kind = getattr(transformers, name.split()[-1])
    with torch.device("meta"):
        return kind(kind.config_class(**CONFIGS[name]))
