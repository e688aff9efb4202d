"""Stand-ins for models of a hub: a config of full size, and a tokenizer and processor of its kind.

`of(name, folder)` is a folder that `vlmguard rehearse` takes for the model's own, all but weights.
Tokenizers know bytes and the special tokens of their family. Imports no torch.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kit import runs
from tests.kit.full_configs import CONFIGS

_QWEN = {"torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151645,
         "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
         "max_position_embeddings": 32768, "tie_word_embeddings": False}  # fmt: skip
_TEXT: dict[str, dict[str, Any]] = {
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
}  # fmt: skip
_KINDS: tuple[tuple[str, str, str, str], ...] = (
    # the name's last part, a family of the test kit, the class, its model type
    (r"Qwen2-VL-.*", "qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl"),
    (r"Qwen2\.5-VL-.*", "qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl"),
    (r"Qwen3-VL-\d+B-A.*", "qwen3_vl", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe"),
    (r"Qwen3-VL-.*", "qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl"),
    (r"Qwen3\.5-[\d.]+B", "qwen3_5", "", ""),
    (r"MiniCPM-V-4\.6", "minicpmv4_6", "", ""),
    (r"Qwen3-\d+B-A\d+B.*", "qwen2_vl", "Qwen3MoeForCausalLM", "qwen3_moe"),
    (r"Qwen3-[\d.]+B(-Base|-Instruct.*)?|DeepSeek-R1-0528-Qwen3-8B", "qwen2_vl",
     "Qwen3ForCausalLM", "qwen3"),
    (r"Qwen2(\.5)?(-Math)?-[\d.]+B(-Instruct)?(-AWQ|-GPTQ.*)?", "qwen2_vl", "Qwen2ForCausalLM",
     "qwen2"),
    (r"Meta-Llama-3\.1-8B-Instruct", "qwen2_vl", "LlamaForCausalLM", "llama"),
)
_OF_TEXT = ("tokenizer", "vocab", "merges", "special_tokens", "generation_config",
            "chat_template")  # fmt: skip


def of(name: str, place: Path) -> Path | None:
    """The stand-in, made below ``place``; None where there is none of its kind."""
    last = name.rstrip("/").rpartition("/")[2]
    for pattern, family, architecture, kind in _KINDS:
        if re.fullmatch(pattern, last):
            out = place / last
            if not (out / "config.json").exists():
                _make(out, runs.model_folder("swift", family), architecture, kind)
            return out
    return None


def _make(out: Path, family: Path, architecture: str, kind: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    wanted: Callable[[str], bool] = lambda name: not name.endswith(".safetensors")  # noqa: E731
    if architecture in _TEXT:
        wanted = lambda name: name.startswith(_OF_TEXT)  # noqa: E731
    for file in family.iterdir():
        if file.is_file() and file.name != "config.json" and wanted(file.name):
            shutil.copy(file, out)
    config = json.loads((family / "config.json").read_text())
    if architecture:
        config = _TEXT.get(architecture) or {**CONFIGS[architecture], "torch_dtype": "bfloat16"}
        config = {**config, "architectures": [architecture], "model_type": kind}
    (out / "config.json").write_text(json.dumps(config, indent=1))
