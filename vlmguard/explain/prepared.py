"""How many processes prepare the data: by the flag that the run itself had, before any other."""

from __future__ import annotations

from typing import Any

from vlmguard.explain import swift

# ms-swift 1 and 2; 3, 4 and TRL; LLaMA-Factory and transformers' examples; axolotl; scripts.
FLAGS = (
    "preprocess_num_proc",
    "dataset_num_proc",
    "preprocessing_num_workers",
    "dataset_processes",
    "preprocess_num_workers",
    "num_proc",
)
_YAML = ("LLaMA-Factory", "axolotl")
_TIMED = ("TRL", "transformers", "FlagEmbedding")  # whose flags are TrainingArguments'
_SWIFT = "2024-09"  # from 2.4 of that month on it has ddp_timeout


def own(action: str, facts: Any) -> str:
    """``action`` by that flag, "" where the log has none or another way is better."""
    name = next((n for n in FLAGS if n in facts.typed), "")
    if action == "map_workers" and name and facts.framework not in _YAML:
        return f"--{name} 1"
    if action == "map_few" and name and facts.framework not in _YAML:
        return f"--{name} 8"
    if action not in ("map_more", "map_and_wait") or facts.framework in _YAML or not name:
        return ""
    more = f"--{name} $(nproc)"
    if action == "map_more" or "ddp_timeout" in facts.typed:
        return more
    if facts.framework == "ms-swift":
        return f"--ddp_timeout 18000 {more}" if _waits(facts) else more
    if facts.framework in _TIMED:
        return f"--ddp_timeout 18000 {more}"
    return f"{more}, and init_process_group(timeout=timedelta(hours=5))"


def _waits(facts: Any) -> bool:
    """An ms-swift that has the argument, and does not wait 5,000 hours by itself."""
    return swift.release(facts) == "2" and facts.said.get("day", "") >= _SWIFT
