"""Which family is built by which module here, and what ms-swift calls it.

Read by the test kit too, so it imports nothing.
"""

FAMILIES = {
    "qwen2_vl": ("tiny_qwen", "qwen2_vl"),
    "qwen2_5_vl": ("tiny_qwen", "qwen2_5_vl"),
    "qwen3_vl": ("tiny_qwen", "qwen3_vl"),
    "qwen3_5": ("tiny_qwen3_5", "qwen3_5"),
    "minicpmv4_6": ("tiny_qwen3_5", "minicpmv4_6"),
    "llava": ("tiny_llava", "llava1_5_hf"),
    "llava_next": ("tiny_llava", "llava1_6_vicuna_hf"),
    "llava_onevision": ("tiny_llava", "llava_onevision_hf"),
    "gemma3": ("tiny_gemma", "gemma3_vision"),
    "paligemma": ("tiny_gemma", "paligemma"),
    "idefics3": ("tiny_llama", "idefics3"),
    "mllama": ("tiny_llama", "llama3_2_vision"),
    "internvl": ("tiny_internvl", "internvl_hf"),
    "qwen3": ("tiny_more", "qwen3"),
    "qwen2_5_vl_deep": ("tiny_more", "qwen2_5_vl"),
}
"""Family: module, model type and template (ms-swift gives both the same name)."""
MODEL_TYPES = {"internvl_hf": "internvl"}
"""Where ms-swift's model type is not the template's name."""
