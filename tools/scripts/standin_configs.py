"""Full-size configs of text models, as their published config.json have them.

What equals the default of transformers' own config class is left out there.
"""

from __future__ import annotations

from typing import Any

_QWEN = {"torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151645,
         "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
         "max_position_embeddings": 32768, "tie_word_embeddings": False}  # fmt: skip
_OWN = {"torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151645,
        "pad_token_id": 151643}  # fmt: skip
"""The ids of the tokenizer that stands in."""
_BERT_IDS = {"cls_token_id": 20001, "sep_token_id": 20002, "pad_token_id": 20003}

TEXT: dict[str, dict[str, Any]] = {
    "Qwen2ForCausalLM": {
        **_QWEN, "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "max_window_layers": 28, "use_sliding_window": False, "vocab_size": 152064,
    },
    "Qwen3ForCausalLM": {
        **_QWEN, "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "max_window_layers": 36, "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "Qwen3MoeForCausalLM": {
        **_QWEN, "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
        "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
        "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
        "vocab_size": 151936,
    },
    "LlamaForCausalLM": {
        **_QWEN, "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 151936,
    },
    "Qwen3NextForCausalLM": {
        **_OWN, "model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120,
        "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
        "full_attention_interval": 4, "partial_rotary_factor": 0.25, "rope_theta": 10000000,
        "max_position_embeddings": 262144, "vocab_size": 151936, "num_experts": 512,
        "num_experts_per_tok": 10, "moe_intermediate_size": 512, "head_dim": 256,
        "shared_expert_intermediate_size": 512,
    },
    "Glm4ForCausalLM": {
        **_OWN, "model_type": "glm4", "hidden_size": 4096, "intermediate_size": 13696,
        "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2,
        "head_dim": 128, "partial_rotary_factor": 0.5, "attention_bias": False,
        "max_position_embeddings": 32768, "vocab_size": 151552,
    },
    "GptOssForCausalLM": {
        **_OWN, "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
        "num_hidden_layers": 24, "num_local_experts": 32, "num_experts_per_tok": 4,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
        "sliding_window": 128, "vocab_size": 201088, "rope_theta": 150000,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    },
    "NemotronForCausalLM": {
        **_OWN, "model_type": "nemotron", "hidden_size": 3072, "intermediate_size": 9216,
        "num_hidden_layers": 32, "num_attention_heads": 24, "num_key_value_heads": 8,
        "head_dim": 128, "partial_rotary_factor": 0.5, "rope_theta": 10000,
        "max_position_embeddings": 4096, "vocab_size": 256000,
    },
    "NemotronHForCausalLM": {
        **_OWN, "model_type": "nemotron_h", "hidden_size": 2688, "num_attention_heads": 32,
        "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 131072, "mamba_num_heads": 64,
        "n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
        "moe_shared_expert_intermediate_size": 3712, "intermediate_size": 1856,
        "routed_scaling_factor": 2.5, "max_position_embeddings": 262144,
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    },
    "ModernBertForSequenceClassification": {
        **_BERT_IDS, "model_type": "modernbert", "bos_token_id": 20001, "eos_token_id": 20002,
        "classifier_pooling": "mean", "vocab_size": 50368, "torch_dtype": "float16",
        "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
    },
    "BertForMaskedLM": {
        **_BERT_IDS, "model_type": "bert", "hidden_size": 768, "intermediate_size": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 21128,
        "type_vocab_size": 2, "max_position_embeddings": 512,
    },
}  # fmt: skip
BERT_TOKENS = {"[UNK]": 20000, "[CLS]": 20001, "[SEP]": 20002, "[PAD]": 20003, "[MASK]": 20004}

_VISION = {"depth": 27, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 1152, "in_channels": 3,
           "intermediate_size": 4304, "num_heads": 16, "num_position_embeddings": 2304,
           "out_hidden_size": 2048, "patch_size": 16, "spatial_merge_size": 2,
           "temporal_patch_size": 2, "deepstack_visual_indexes": []}  # fmt: skip
SEEING: dict[str, dict[str, Any]] = {
    "Qwen3_5MoeForConditionalGeneration": {
        "model_type": "qwen3_5_moe", "torch_dtype": "bfloat16", "vision_config": _VISION,
        "vision_start_token_id": 248053, "vision_end_token_id": 248054,
        "image_token_id": 248056, "video_token_id": 248057,
        "text_config": {
            "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
            "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4,
            "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512, "vocab_size": 248320,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                "mrope_interleaved": True, "mrope_section": [11, 11, 10],
            },
        },
    },
}  # fmt: skip
"""Of models that take images, beside the test kit's own."""

FOREIGN = {
    r"MOSS-VL.*|Keye-VL.*|Ovis2\.5.*|DeepSeek-OCR|deepseek-vl2.*|InternVL3-.*|jina-reranker-m0|"
    r"Emu3-Gen|Phi-4-multimodal.*|internlm2.*": "its class is the model's own code",
    r"gemma-4-.*": "transformers 5.19 keeps a config for each of its layers, and no tiny one of "
                   "that is made yet",
    r"Qwen3-TTS.*": "its class is of a package that is not installed here (qwen_tts)",
    r"Qwen2\.5-Omni.*|Qwen3-Omni.*": "its processor needs a package that is not installed here "
                                     "(qwen_omni_utils)",
    r"Qwen2-Audio.*": "its rows need a package that is not installed here (librosa)",
}  # fmt: skip
"""Names of models that no stand-in is made for, and why."""
