"""Names that a package got or lost in a release, by the name that cannot be imported."""

from __future__ import annotations

import re

from vlmguard.explain.settled import fault

# Package → its releases → the names that only these have. As pip wants them.
_BY_RELEASE = {
    "transformers": {
        "transformers<4.47": "shard_checkpoint",
        "transformers<4.48": "LlamaFlashAttention2 MistralFlashAttention2 Qwen2FlashAttention2 "
        "LLAMA_ATTENTION_CLASSES QWEN2_ATTENTION_CLASSES MISTRAL_ATTENTION_CLASSES "
        "LlamaSdpaAttention Qwen2SdpaAttention",
        "transformers<4.35": "_expand_mask _make_causal_mask",
        "transformers<4.39": "top_k_top_p_filtering",
        "transformers<4.50": "AdamW",
        "transformers<5": "AutoModelForVision2Seq HybridCache is_torch_fx_available",
        "transformers>=4.25": "GenerationConfig",
        "transformers>=4.27": "BitsAndBytesConfig Blip2ForConditionalGeneration",
        "transformers>=4.28": "LlamaConfig LlamaForCausalLM LlamaTokenizer",
        "transformers>=4.31": "InstructBlipForConditionalGeneration",
        "transformers>=4.34": "MistralForCausalLM MistralConfig",
        "transformers>=4.36": "LlavaForConditionalGeneration Cache DynamicCache",
        "transformers>=4.37": "SiglipVisionModel SiglipImageProcessor Qwen2ForCausalLM Qwen2Config",
        "transformers>=4.39": "LlavaNextForConditionalGeneration LlavaNextProcessor",
        "transformers>=4.40": "Idefics2ForConditionalGeneration",
        "transformers>=4.41": "PaliGemmaForConditionalGeneration "
        "VideoLlavaForConditionalGeneration",
        "transformers>=4.42": "LlavaNextVideoForConditionalGeneration",
        "transformers>=4.43": "EncoderDecoderCache",
        "transformers>=4.45": "Qwen2VLForConditionalGeneration MllamaForConditionalGeneration "
        "LlavaOnevisionForConditionalGeneration Qwen2AudioForConditionalGeneration",
        "transformers>=4.46": "AutoModelForImageTextToText Idefics3ForConditionalGeneration",
        "transformers>=4.49": "Qwen2_5_VLForConditionalGeneration Qwen2_5_VLProcessor",
        "transformers>=4.50": "Gemma3ForConditionalGeneration SmolVLMForConditionalGeneration",
        "transformers>=4.51": "Qwen3ForCausalLM Qwen3MoeForCausalLM Llama4ForConditionalGeneration",
        "transformers>=4.52": "Qwen2_5OmniForConditionalGeneration",
        "transformers>=4.57": "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration",
    },
    "huggingface-hub": {
        "huggingface_hub<0.26": "cached_download",
        "huggingface_hub<1": "HfFolder",
        "huggingface_hub>=0.21": "split_torch_state_dict_into_shards",
    },
    "peft": {
        "peft<0.10": "prepare_model_for_int8_training",
        "peft>=0.10": "_enable_peft_forward_hooks",
    },
    "setuptools": {"setuptools<70": "packaging"},
    "protobuf": {"protobuf>=3.20,<5": "builder"},
    "accelerate": {
        "accelerate>=0.17": "PartialState",
        "accelerate>=0.18": "GradientAccumulationPlugin",
        "accelerate>=0.20": "is_xpu_available",
        "accelerate>=0.21": "is_npu_available",
        "accelerate>=0.22": "AutocastKwargs",
        "accelerate>=0.28": "DataLoaderConfiguration",
        "accelerate>=0.29": "is_mlu_available",
        "accelerate>=0.32": "clear_device_cache",
    },
    "datasets": {"datasets>=2.7": "SchemaInferenceError"},
    "trl": {"trl>=0.14": "GRPOConfig GRPOTrainer"},
}
_PIN = {
    (package, name): pin
    for package, pins in _BY_RELEASE.items()
    for pin, names in pins.items()
    for name in names.split()
}

# A model's type, as config.json has it → the first release of transformers that knows it.
_TYPES = {
    "4.37": "qwen2 vipllava",
    "4.39": "llava_next",
    "4.45": "qwen2_vl qwen2_audio mllama llava_onevision pixtral",
    "4.46": "idefics3 glm",
    "4.48": "aria",
    "4.49": "qwen2_5_vl got_ocr2",
    "4.50": "gemma3 mistral3 smolvlm aya_vision",
    "4.51": "qwen3 qwen3_moe llama4 deepseek_v3 glm4 phi4_multimodal",
    "4.52": "qwen2_5_omni internvl",
    "4.53": "gemma3n glm4v smollm3 minimax dots1",
    "4.54": "glm4_moe ernie4_5 ernie4_5_moe deepseek_v2 deepseek_vl voxtral lfm2",
    "4.55": "gpt_oss cohere2_vision",
    "4.56": "glm4v_moe ovis2 florence2 kosmos-2.5 seed_oss",
    "4.57": "qwen3_vl qwen3_vl_moe qwen3_next qwen3_omni_moe lfm2_vl",
}
_SINCE = {name: since for since, names in _TYPES.items() for name in names.split()}
# Names of the standard library, by the Python that they came with.
_TYPING = {
    "3.8": "Literal Protocol TypedDict Final",
    "3.9": "Annotated",
    "3.10": "ParamSpec TypeAlias TypeGuard Concatenate",
    "3.11": "Self Unpack NotRequired Required",
    "3.12": "override",
}
PYTHONS = {
    "3.7": ("'nullcontext'",),
    **{since: tuple(f"'{n}' from 'typing'" for n in names.split())
       for since, names in _TYPING.items()},
}  # fmt: skip


def type_pin(name: str) -> str:
    """The transformers that a model of this type wants, "" where it is not known."""
    return f"transformers>={_SINCE[name]}" if name in _SINCE else ""


# A model's name on the hub → its type.
_REPOS = {
    r"internvl[23][\w.]{0,4}-\w{1,8}(?:-\w{1,12})?-hf$": "internvl",
    r"qwen2-vl-": "qwen2_vl",
    r"qwen2\.5-vl-": "qwen2_5_vl",
    r"qwen2\.5-omni-": "qwen2_5_omni",
    r"qwen3-vl-": "qwen3_vl",
    r"gemma-3-\d": "gemma3",
    r"gemma-3n-": "gemma3n",
    r"llama-4-": "llama4",
    r"smolvlm": "smolvlm",
    r"idefics3-": "idefics3",
    r"glm-4\.1v-": "glm4v",
}


def repo_pin(repo: str, told: str) -> str:
    """The transformers that the model of this name wants, "" where it is not known or there."""
    kind = next((t for name, t in _REPOS.items() if re.search(name, repo.lower())), "")
    since = _SINCE.get(kind, "")
    there = bool(told) and fault.numbers(told) >= fault.numbers(since)
    return f"transformers>={since}" if since and not there else ""


def pin(package: str, name: str) -> str:
    """What pip is to install, so that ``package`` has ``name``; "" where it is not known."""
    return _PIN.get((package, name), "")


# Modules that FlagEmbedding 1.3 moved → where they are since; "": in its repository's research
# folder alone.
_FLAG = "FlagEmbedding.finetune"
_MOVED = {
    "FlagEmbedding.baai_general_embedding.finetune.hn_mine": "",
    "FlagEmbedding.baai_general_embedding.finetune": f"{_FLAG}.embedder.encoder_only.base",
    "FlagEmbedding.BGE_M3": f"{_FLAG}.embedder.encoder_only.m3",
    "FlagEmbedding.reranker": f"{_FLAG}.reranker.encoder_only.base",
    "FlagEmbedding.llm_reranker.finetune_for_instruction": f"{_FLAG}.reranker.decoder_only.base",
    "FlagEmbedding.llm_reranker.finetune_for_layerwise": f"{_FLAG}.reranker.decoder_only.layerwise",
    "FlagEmbedding.baai_general_embedding": f"{_FLAG}.embedder.encoder_only.base",
    "FlagEmbedding.llm_reranker": "",
    "FlagEmbedding.llm_embedder": "",
    "FlagEmbedding.LLARA": "",
    "FlagEmbedding.visual": "",
}


def module(name: str, said: str) -> dict[str, str]:
    """What pip is to install, so that a module is there, and the place that it has now.

    ``said`` may have the whole of the name of which the message lacks a part only.
    """
    old = next((o for o in _MOVED if name.startswith(o)), "")
    if not old:
        return {}
    whole = next((o for o in _MOVED if o.startswith(name) and o in said), old)
    return {"oldpin": "FlagEmbedding<1.3", "newmodule": _MOVED[whole]}
