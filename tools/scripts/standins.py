"""Stand-ins for models of a hub: a config of full size, and a tokenizer and processor of its kind.

`of(name, folder)` is a folder that `vlmguard rehearse` takes for the model's own, all but weights.
Tokenizers know bytes and the special tokens of their family. Imports no torch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.kit import envs, runs
from tests.kit.full_configs import CONFIGS
from tests.kit.models.families import FAMILIES
from tools.scripts.standin_configs import BERT_TOKENS, FOREIGN, SEEING, TEXT

PROCESSORS = Path(__file__).with_name("processors.py")
_KINDS: tuple[tuple[str, str, str, str], ...] = (
    # the name's last part, a family of the test kit, the class, its model type
    (r"(gme-)?Qwen2-VL-.*", "qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl"),
    (r"Qwen2\.5-VL-.*", "qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl"),
    (r"Qwen3-VL-\d+B-A.*", "qwen3_vl", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe"),
    (r"Qwen3-VL-.*", "qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl"),
    (r"Qwen3\.[58]-[\d.]+B", "qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5"),
    (r"Qwen3\.5-\d+B-A\d+B", "qwen3_5", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"),
    (r"MiniCPM-V-4\.6", "minicpmv4_6", "", ""),
    (r"Llama-4-.*", "llama4", "Llama4ForConditionalGeneration", "llama4"),
    (r"Qwen3-Next-.*", "qwen2_vl", "Qwen3NextForCausalLM", "qwen3_next"),
    (r"Qwen3-\d+B-A\d+B.*", "qwen2_vl", "Qwen3MoeForCausalLM", "qwen3_moe"),
    (r"Qwen3-((Embedding|Reranker)-)?[\d.]+B(-Base|-Instruct.*)?|DeepSeek-R1-0528-Qwen3-8B",
     "qwen2_vl", "Qwen3ForCausalLM", "qwen3"),
    (r"Qwen2(\.5)?(-Math)?-[\d.]+B(-Instruct)?(-AWQ|-GPTQ.*)?|QwQ-32B|"
     r"DeepSeek-R1-Distill-Qwen-[\d.]+B", "qwen2_vl", "Qwen2ForCausalLM", "qwen2"),
    (r"Meta-Llama-3\.1-8B-Instruct", "qwen2_vl", "LlamaForCausalLM", "llama"),
    (r"GLM-4-\d+B-0414", "qwen2_vl", "Glm4ForCausalLM", "glm4"),
    (r"gpt-oss-\d+b", "qwen2_vl", "GptOssForCausalLM", "gpt_oss"),
    (r"Nemotron-Mini-4B-Instruct", "qwen2_vl", "NemotronForCausalLM", "nemotron"),
    (r"NVIDIA-Nemotron-3\.5-.*", "qwen2_vl", "NemotronHForCausalLM", "nemotron_h"),
    (r"gte-reranker-modernbert-base", "qwen2_vl", "ModernBertForSequenceClassification",
     "modernbert"),
    (r"bert-base-chinese", "qwen2_vl", "BertForMaskedLM", "bert"),
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
                _make(out, _family(family), architecture, kind)
            return out
    return None


def why_not(name: str) -> str:
    """Why there is none; "" where nobody has said."""
    last = name.rstrip("/").rpartition("/")[2]
    return next((why for names, why in FOREIGN.items() if re.fullmatch(names, last)), "")


def _family(name: str) -> Path:
    """The tiny checkpoint of the test kit's family, or a folder with tokenizer and processor."""
    if name in FAMILIES:
        return runs.model_folder("swift", name)

    def build(out: Path) -> None:
        around = {**os.environ, "PYTHONPATH": runs.search_path("swift"), "VLMGUARD": "off"}
        command = [envs.program("swift"), str(PROCESSORS), str(out), name]
        subprocess.run(command, env=around, check=True, capture_output=True)

    return runs.built(f"swift-processor-{name}", PROCESSORS.read_text("utf-8"), build)


def _make(out: Path, family: Path, architecture: str, kind: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    wanted: Callable[[str], bool] = lambda name: not name.endswith(".safetensors")  # noqa: E731
    if architecture in TEXT:
        wanted = lambda name: name.startswith(_OF_TEXT)  # noqa: E731
    for file in family.iterdir():
        if file.is_file() and file.name != "config.json" and wanted(file.name):
            shutil.copy(file, out)
    config = {} if architecture else json.loads((family / "config.json").read_text())
    if architecture:
        known = TEXT.get(architecture) or SEEING.get(architecture) or CONFIGS[architecture]
        config = {"torch_dtype": "bfloat16", **known}
        config = {**config, "architectures": [architecture], "model_type": kind}
    (out / "config.json").write_text(json.dumps(config, indent=1))
    if kind in ("bert", "modernbert"):
        _bert(out)
    elif "Reranker" in out.name:
        _words(out, ("no", "yes"))


def _bert(out: Path) -> None:
    """Bytes, and a BERT's special tokens."""
    for name in ("vocab.json", "merges.txt", "chat_template.json", "generation_config.json"):
        (out / name).unlink(missing_ok=True)
    _added(out, BERT_TOKENS, special=True, keep=False)
    roles = {f"{name.strip('[]').lower()}_token": name for name in BERT_TOKENS}
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, **roles}
    (out / "tokenizer_config.json").write_text(json.dumps(told))


def _words(out: Path, words: tuple[str, ...]) -> None:
    """Whole words as tokens, with ids behind those of the bytes."""
    ids = {word: 256 + number for number, word in enumerate(words)}
    _added(out, ids, special=False, keep=True)
    vocab = json.loads((out / "vocab.json").read_text())
    (out / "vocab.json").write_text(json.dumps({**vocab, **ids}))
    file = out / "tokenizer_config.json"
    told = json.loads(file.read_text())
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    for word, number in ids.items():
        told["added_tokens_decoder"][str(number)] = {"content": word, "special": False, **plain}
    file.write_text(json.dumps(told))


def _added(out: Path, ids: dict[str, int], special: bool, keep: bool) -> None:
    file = out / "tokenizer.json"
    told = json.loads(file.read_text())
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    new = [{"id": number, "content": word, "special": special, **plain}
           for word, number in ids.items()]  # fmt: skip
    old = {token["content"] for token in told["added_tokens"]}
    vocab = told["model"]["vocab"]
    kept = vocab if keep else {token: n for token, n in vocab.items() if token not in old}
    told["model"]["vocab"] = {**kept, **ids}
    told["added_tokens"] = sorted([*(told["added_tokens"] if keep else []), *new],
                                  key=lambda token: int(token["id"]))  # fmt: skip
    file.write_text(json.dumps(told))
