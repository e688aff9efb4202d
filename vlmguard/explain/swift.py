"""Which ms-swift a log is of, and what that release calls its arguments.

2 had sft_type and lora_target_modules, 3 train_type, 4 tuner_type; each refuses the others' names.
"""

from __future__ import annotations

import re
from typing import Any

# Files that only this release has, in tracebacks and in its own lines.
_FILES = (
    ("4", re.compile(r"\bswift/(?:pipelines|arguments|rlhf_trainers|infer_engine)/")),
    ("3", re.compile(r"\bswift/llm/(?:train|argument|dataset|template|infer|model)/")),
    ("3", re.compile(r"\bswift/llm/base\.py")),
    ("2", re.compile(r"\bswift/llm/(?:data/|(?:sft|tuner|rlhf|dpo|orpo)\.py)")),
)
_TYPE = {"2": "sft_type", "3": "train_type", "4": "tuner_type"}
_SPELT = {
    "2": {
        "lora": "--sft_type lora",
        "all_linear": "--lora_target_modules ALL",
        "four_bits": "--quantization_bit 4 --sft_type lora",
        "bf16": "--dtype bf16",
        "fp16": "--dtype fp16",
        "load_half": "--dtype bf16",
        "sdpa": "--use_flash_attn false",
        "flash": "--use_flash_attn true",
        "batch": "--batch_size {micro} --gradient_accumulation_steps {accumulation}",
        "halve": "half of --batch_size and twice --gradient_accumulation_steps: the global batch "
        "stays the same",
        "eval_batch": "--eval_batch_size 1",
        "eval_all": "--dataset_test_ratio 0.001, or a smaller --val_dataset",
        "zero2": "--deepspeed default-zero2",
        "zero3": "--deepspeed default-zero3",
        "offload": "--deepspeed zero3-offload",
        "zero3_offload": "--deepspeed zero3-offload",
        "no_offload": "--deepspeed default-zero3",
        "model_name_or_path": "--model_id_or_path MODEL_OR_FOLDER behind the command",
        "map_workers": "--preprocess_num_proc 1",
        "map_few": "--preprocess_num_proc 8",
        "map_more": "--preprocess_num_proc $(nproc)",
        "map_and_wait": "--preprocess_num_proc $(nproc)",
        "preprocess": "--lazy_tokenize true",
    },
    "3": {
        "lora": "--train_type lora",
        "four_bits": "--quant_method bnb --quant_bits 4 --train_type lora",
    },
    "4": {
        "lora": "--tuner_type lora",
        "four_bits": "--quant_method bnb --quant_bits 4 --tuner_type lora",
    },
}


def passing(text: str, said: dict[str, str]) -> None:
    """Adds the release that this part of a log betrays."""
    if "swift" not in said and "swift" in text:
        found = next((release for release, pattern in _FILES if pattern.search(text)), "")
        if found:
            said["swift"] = found


def release(facts: Any) -> str:
    """2, 3 or 4; "" where nothing tells."""
    told = facts.releases.get("ms-swift") or facts.releases.get("swift") or ""
    number = told.partition(".")[0]
    return number if number in _TYPE else facts.said.get("swift", "") or _typed(facts)


def _typed(facts: Any) -> str:
    """By an argument that one release alone has, where it was not refused."""
    if "preprocess_num_proc" in facts.typed:
        return "2"
    found = [number for number, name in _TYPE.items() if name in facts.typed]
    if not found and "sft_type" in facts.said:  # of its printed arguments
        found = ["2"]
    refused = len(found) == 1 and _TYPE[found[0]] in facts.message
    return found[0] if len(found) == 1 and not refused else ""


def own(action: str, facts: Any) -> str:
    """``action`` as this release spells it, "" where all of them do so alike."""
    if facts.framework != "ms-swift":
        return ""
    if action == "all_linear" and "lora_target_modules" in facts.said:
        return _SPELT["2"][action]  # its printed arguments have it
    return _SPELT.get(release(facts), {}).get(action, "")


def renamed(argument: str, facts: Any) -> str:
    """What this release calls an argument that it refused, "" where nothing tells."""
    if facts.framework != "ms-swift" or argument not in _TYPE.values():
        return ""
    new = _TYPE.get(release(facts), "")
    return new if new != argument else ""
