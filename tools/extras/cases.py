"""What is tried for each extra: its framework, a command of it, what vlmguard should say."""

from __future__ import annotations

from dataclasses import dataclass

TORCH = "2.13.0"
"""The newest release that has a CPU build where we install from."""
_REENTRANT = """--gradient_checkpointing_kwargs '{"use_reentrant": true}'"""


@dataclass(frozen=True)
class Case:
    """One extra.

    Attributes:
        package: what a script imports; "" for vlmguard alone.
        distributions: what the table shows of what was installed.
        adapter: the module of ours that its import arms.
        command: a line for `vlmguard check`.
        told: what `check` has to say of it.
        torch: the release that is installed first; "" if the extra chooses it.
        selftest: whether `vlmguard selftest` trains with it.
    """

    package: str
    distributions: tuple[str, ...]
    adapter: str
    command: str
    told: str
    torch: str = TORCH
    selftest: bool = True


CASES = {
    "": Case(
        "", (), "", f"swift sft --model Qwen/Qwen2-VL-2B-Instruct {_REENTRANT}",
        "cannot tell: ms-swift is not installed here", torch="", selftest=False,
    ),
    "swift": Case(
        "swift", ("ms-swift", "qwen-vl-utils", "torchvision"), "vlmguard_swift",
        "NPROC_PER_NODE=2 swift sft --model Qwen/Qwen2-VL-2B-Instruct --dataset rows.jsonl "
        + _REENTRANT, "VG101 error",
    ),
    "trl": Case(
        "trl", ("trl",), "vlmguard_trl",
        "torchrun --nproc_per_node 2 -m trl.scripts.sft --dataset_name rows --output_dir out "
        f"--model_name_or_path Qwen/Qwen2-VL-2B-Instruct --use_peft {_REENTRANT}", "VG101 error",
    ),
    "llamafactory": Case(
        "llamafactory", ("llamafactory", "torchvision", "torchaudio"), "vlmguard_llamafactory",
        "FORCE_TORCHRUN=1 NPROC_PER_NODE=2 llamafactory-cli train --stage sft --do_train true "
        "--model_name_or_path Qwen/Qwen2-VL-2B-Instruct --dataset rows --template qwen2_vl "
        "--finetuning_type lora --output_dir out --use_reentrant_gc true", "VG101 note",
    ),
    "flagembedding": Case(
        "FlagEmbedding", ("FlagEmbedding",), "vlmguard_flagembedding",
        "torchrun --nproc_per_node 2 -m FlagEmbedding.finetune.embedder.encoder_only.base "
        "--model_name_or_path BAAI/bge-base-en-v1.5 --train_data rows.jsonl --output_dir out "
        f"--gradient_checkpointing --ddp_find_unused_parameters true {_REENTRANT}", "VG101 error",
    ),
    "colossalai": Case(
        "colossalai", ("colossalai",), "vlmguard_colossalai",
        "colossalai run --nproc_per_node 2 train.py", "cannot tell: train.py: a ColossalAI script",
        torch="", selftest=False,
    ),
    "deepspeed": Case(
        "deepspeed", ("deepspeed",), "vlmguard_torch",
        "deepspeed --num_gpus 2 train.py", "cannot tell: train.py uses no framework",
        selftest=False,
    ),
}  # fmt: skip
"""Extra → its case; "" is vlmguard without one."""

ALWAYS = ("torch", "transformers", "accelerate", "peft")
"""Distributions that the table shows for every extra that brings them."""

TRAIN = {
    "colossalai": "import colossalai\n"
    "from colossalai.booster import Booster\n"
    "from colossalai.booster.plugin import GeminiPlugin\n"
    "colossalai.launch_from_torch()\n"
    "booster = Booster(plugin=GeminiPlugin())\n",
    "deepspeed": "import deepspeed\nengine = deepspeed.initialize(model=None)\n",
}
"""Extra → the ``train.py`` that its command names."""

LOG = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 3, in <module>
[rank0]:     loss.backward()
[rank0]: RuntimeError: Expected to mark a variable ready only once.
"""
