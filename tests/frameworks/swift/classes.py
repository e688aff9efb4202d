"""Model classes beyond Qwen-VL, and runs that no earlier test named, as data: a command each."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.frameworks.swift.cases import (
    ALIGNER,
    DPO,
    EXTERNAL,
    FULL,
    GRPO,
    LORA,
    NO_CHECKPOINTS,
    REDUCED,
    REWARD,
    SFT,
    UNUSED,
    VISION,
)
from tests.kit.swift import KIT

VIDEO = ["--external_plugins", str(EXTERNAL / "video_frames.py")]
TRAINED = [*FULL, *VISION, *ALIGNER]
DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
"""Each collective is first compared between the ranks: where they part is said, nothing hangs.
Not for plain DDP and FSDP2, which die of it under gloo."""
SAME = {"VLMGUARD_TEST_SAME_ADAPTERS": "1"}
PART = "mismatch between collectives on ranks"
SIZES = "Received data size doesn't match expected size"
UNFINISHED = "Expected to have finished reduction"
BATCHES = ["--per_device_train_batch_size", "2"]


NON_REENTRANT = ["--gradient_checkpointing_kwargs", '{"use_reentrant": false}']
LISA = ["--lisa_activated_layers", "1", "--lisa_step_interval", "1", "--max_steps", "4"]
"""Layers are frozen and unfrozen while training."""


def zero(stage: int) -> list[str]:
    """Our own configuration: no clipping, and buckets that a tiny model fills."""
    return ["--deepspeed", str(KIT / "deepspeed" / f"zero{stage}.json")]


def fsdp2(layers: str) -> list[str]:
    """ms-swift's own configuration, but each rank loads the weights, so that the first are known,
    and layers are named: transformers' list for LLaVA holds a class that is not in the model."""
    settings = {
        "fsdp_version": 2,
        "reshard_after_forward": True,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "transformer_layer_cls_to_wrap": layers,
        "cpu_ram_efficient_loading": False,
        "state_dict_type": "SHARDED_STATE_DICT",
        "activation_checkpointing": True,
    }
    config = json.dumps({"fsdp": "full_shard auto_wrap", "fsdp_config": settings})
    return ["--fsdp", config, "--gradient_checkpointing", "false"]


def evaluated(data: str) -> list[str]:
    """Evaluation after each step."""
    return ["--val_dataset", f"{{data}}/{data}.jsonl", "--eval_strategy", "steps", "--eval_steps",
            "1", "--per_device_eval_batch_size", "1"]  # fmt: skip


@dataclass(frozen=True)
class Run:
    """Attributes:
    off: with the guard off: "right", "wrong" (exit 0), "hang", or a message of the crash.
    on: with the guard on: "right" or the code of the finding that stops it.
    reference: flags in place of `flags` for the run that both are judged by.
    """

    name: str
    verb: list[str]
    model: str
    data: str
    flags: list[str]
    off: str
    on: str
    reference: list[str]
    world: int = 2
    extra: dict[str, str] = field(default_factory=dict)


PLAIN = [*NO_CHECKPOINTS, *UNUSED]
REFERENCE = [*TRAINED, *PLAIN]
"""Plain DDP that looks for unused parameters, without checkpointing."""


def differ(model: str, ddp: str = "hang", zero2: str = PART, zero3: str = PART) -> list[Run]:
    """A rank with an image and one without, everything trained, under DDP and ZeRO."""
    every = {"ddp": ([], ddp), "zero2": (zero(2), zero2), "zero3": (zero(3), zero3)}
    return [
        Run(f"{model}-{how}", SFT, model, "mixed", [*TRAINED, *flags], off, "right", REFERENCE)
        for how, (flags, off) in every.items()
    ]


RUNS = [
    Run("qwen3_5-zero3", SFT, "qwen3_5", "mixed", [*TRAINED, *zero(3)], "right", "right",
        REFERENCE),
    Run("qwen3_5-zero2", SFT, "qwen3_5", "mixed", [*TRAINED, *zero(2)], "right", "right",
        REFERENCE),
    Run("qwen3_5-ddp", SFT, "qwen3_5", "mixed", TRAINED, "right", "right", REFERENCE),
    Run("llava-lora-zero3", SFT, "llava", "mixed", [*LORA, *zero(3)], PART, "right",
        [*LORA, *PLAIN], extra=SAME),
    # under DDP these three fail on what is never used, before ranks that differ matter
    *differ("llava", ddp=UNFINISHED),
    *differ("llava_next", ddp=UNFINISHED),
    *differ("llava_onevision", ddp=UNFINISHED),
    *differ("gemma3"),
    *differ("paligemma"),
    *differ("idefics3"),
    *differ("mllama"),
    *differ("internvl", zero2="right", zero3="right"),  # its template's own dummy
    *differ("minicpmv4_6"),
    Run("llava-zero3-text-eval", SFT, "llava", "image",
        [*TRAINED, *zero(3), *evaluated("text")], "right", "right", REFERENCE),
    Run("gemma3-zero3-text-eval", SFT, "gemma3", "image",
        [*TRAINED, *zero(3), *evaluated("text")], "right", "right", REFERENCE),
    Run("llava-zero3-mixed-eval", SFT, "llava", "image",
        [*TRAINED, *zero(3), *evaluated("mixed")], PART, "right", REFERENCE),
    Run("llava-zero3-mixed-mixed-eval", SFT, "llava", "mixed",
        [*TRAINED, *zero(3), *evaluated("mixed")], PART, "right", REFERENCE),
    Run("llava-images-ddp", SFT, "llava", "image", TRAINED, UNFINISHED, "right", REFERENCE),
    Run("llava_next-images-ddp", SFT, "llava_next", "image", TRAINED, UNFINISHED, "right",
        REFERENCE),
    Run("llava_onevision-images-ddp", SFT, "llava_onevision", "image", TRAINED, UNFINISHED,
        "right", REFERENCE),
    Run("mllama-frozen-ddp", SFT, "mllama", "mixed", FULL, "hang", "right", [*FULL, *PLAIN]),
    Run("minicpm-dpo-zero2-both", DPO, "minicpmv4_6", "dpo_both",
        [*TRAINED, *zero(2), *VIDEO], REDUCED, "right", [*REFERENCE, *VIDEO]),
    Run("minicpm-dpo-zero3-both", DPO, "minicpmv4_6", "dpo_both",
        [*TRAINED, *zero(3), *VIDEO], "wrong", "right", [*REFERENCE, *VIDEO]),
    Run("minicpm-lora-zero3", SFT, "minicpmv4_6", "mixed", [*LORA, *zero(3)], PART, "right",
        [*LORA, *PLAIN], extra=SAME),
    Run("gemma3-lora-zero3", SFT, "gemma3", "mixed", [*LORA, *zero(3)], PART, "right",
        [*LORA, *PLAIN], extra=SAME),
    Run("llava-zero3-accumulated", SFT, "llava", "crossed",
        [*TRAINED, *zero(3), "--gradient_accumulation_steps", "2"], PART, "right",
        [*REFERENCE, "--gradient_accumulation_steps", "2"]),
    Run("llava-zero2-accumulated", SFT, "llava", "crossed",
        [*TRAINED, *zero(2), "--gradient_accumulation_steps", "2"], PART, "right",
        [*REFERENCE, "--gradient_accumulation_steps", "2"]),
    Run("llava-grpo-zero3-mixed", GRPO, "llava", "grpo_mixed",
        [*TRAINED, *zero(3), *REWARD, *BATCHES, *NON_REENTRANT], PART, "right",
        [*REFERENCE, *REWARD, *BATCHES]),
    Run("llava-grpo-zero3-images", GRPO, "llava", "grpo",
        [*TRAINED, *zero(3), *REWARD, *BATCHES], "wrong", "right",
        [*REFERENCE, *REWARD, *BATCHES]),
    Run("llava-grpo-zero3-non-reentrant", GRPO, "llava", "grpo",
        [*TRAINED, *zero(3), *REWARD, *BATCHES, *NON_REENTRANT], "right", "right",
        [*REFERENCE, *REWARD, *BATCHES]),
    Run("gemma3-grpo-zero3-mixed", GRPO, "gemma3", "grpo_mixed",
        [*TRAINED, *zero(3), *REWARD, *BATCHES], PART, "right",
        [*REFERENCE, *REWARD, *BATCHES]),
    Run("llava-dpo-zero3-mixed", DPO, "llava", "dpo_mixed", [*TRAINED, *zero(3)], PART, "right",
        REFERENCE),
    Run("qwen2_vl-literal", SFT, "qwen2_vl", "literal", LORA, "right", "right", [*LORA, *PLAIN]),
    Run("qwen2_vl-lisa", SFT, "qwen2_vl", "image", [*FULL, *UNUSED, *LISA], "right", "right",
        [*FULL, *PLAIN, *LISA]),
    Run("llava-zero3-three", SFT, "llava", "mixed", [*TRAINED, *zero(3)], PART, "right",
        REFERENCE, world=3),
    Run("gemma3-zero2-three", SFT, "gemma3", "mixed", [*TRAINED, *zero(2)], PART, "right",
        REFERENCE, world=3),
]  # fmt: skip
LLAVA_FSDP2 = fsdp2("LlamaDecoderLayer,CLIPEncoderLayer")
QWEN_FSDP2 = fsdp2("Qwen3_5DecoderLayer,Qwen3_5VisionBlock")
GEMMA_FSDP2 = fsdp2("Gemma3DecoderLayer,SiglipEncoderLayer")
RUNS += [
    Run("qwen3_5-fsdp2", SFT, "qwen3_5", "mixed", [*TRAINED, *QWEN_FSDP2], "right", "right",
        REFERENCE),
    Run("llava-fsdp2", SFT, "llava", "mixed", [*TRAINED, *LLAVA_FSDP2], SIZES, "right", REFERENCE),
    Run("llava-lora-fsdp2", SFT, "llava", "mixed", [*LORA, *LLAVA_FSDP2], "hang", "right",
        [*LORA, *PLAIN], extra=SAME),
    Run("gemma3-fsdp2", SFT, "gemma3", "mixed", [*TRAINED, *GEMMA_FSDP2], "hang", "right",
        REFERENCE),
    Run("llava-images-fsdp2", SFT, "llava", "image", [*TRAINED, *LLAVA_FSDP2], "right", "right",
        REFERENCE),
    Run("llava-fsdp2-text-eval", SFT, "llava", "image",
        [*TRAINED, *LLAVA_FSDP2, *evaluated("text")], "right", "right", REFERENCE),
]  # fmt: skip
SELECTION = (
    "qwen3_5-zero3",
    "llava-lora-zero3",
    "llava-zero3",
    "llava-zero3-text-eval",
    "llava-images-ddp",
    "mllama-frozen-ddp",
    "minicpm-dpo-zero2-both",
    "gemma3-zero3",
)
"""What `make test` runs; `make frameworks` runs all."""
BY_NAME = {run.name: run for run in RUNS}
