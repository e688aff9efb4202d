"""Model makers' own fine-tuning scripts: the flags and the files that their repositories have.

A script of one's own has no framework's flags; these are known by the path in the traceback.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_CPU = ', and in it "device": "cpu" instead of "none" under "offload_optimizer" and "offload_param"'


_VERL_CPU = (
    "actor_rollout_ref.actor.fsdp_config.param_offload=True "
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True behind the command"
)
_VERL_BATCH = (
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 behind the command (with "
    "use_dynamic_bsz=True: half of actor_rollout_ref.actor.ppo_max_token_len_per_gpu)"
)


@dataclass(frozen=True)
class Project:
    """A script's words for a change, its rows' length, and what its launch file switches on."""

    path: re.Pattern[str]
    spelt: dict[str, str]
    length: int
    on: tuple[str, ...] = ()
    pixels: int | None = None  # an image's, by default
    cuts: bool = False  # its collator cuts a row's ids, image tokens among them, not its pixels


_PROJECTS = (
    Project(  # OpenBMB/MiniCPM-V
        re.compile(r"(?i)minicpm[\w.-]{0,30}/finetune/(?:finetune|trainer)\.py"),
        {
            "zero2": "--deepspeed ds_config_zero2.json",
            "zero3": "--deepspeed ds_config_zero3.json",
            "zero3_offload": f"--deepspeed ds_config_zero3.json{_CPU}",
            "offload": f"--deepspeed ds_config_zero3.json{_CPU}",
            "max_pixels": "--max_slice_nums 4",
            "max_length": "--model_max_length {length}",
            "freeze_tower": "--tune_vision false",
            "lora": "--use_lora true --tune_llm false",
            "checkpointing": "--gradient_checkpointing true",
        },
        2048,
        ("checkpointing",),
    ),
    Project(  # QwenLM's qwen-vl-finetune
        re.compile(r"qwenvl/train/\w{1,30}\.py"),
        {
            "zero2": "--deepspeed scripts/zero2.json",
            "zero3": "--deepspeed scripts/zero3.json",
            "zero3_offload": "--deepspeed scripts/zero3_offload.json",
            "offload": "--deepspeed scripts/zero3_offload.json",
            "max_pixels": "--max_pixels {pixels}",
            "max_length": "--model_max_length {length}",
            "freeze_tower": "--tune_mm_vision False",
            "lora": "--tune_mm_llm False (--lora_enable True, where the repository has it)",
            "checkpointing": "--gradient_checkpointing True",
        },
        8192,
        ("checkpointing",),
        576 * 28 * 28,
        cuts=True,
    ),
    Project(  # haotian-liu/LLaVA and its many copies
        re.compile(r"llava/train/\w{1,30}\.py"),
        {
            "zero2": "--deepspeed ./scripts/zero2.json",
            "zero3": "--deepspeed ./scripts/zero3.json",
            "zero3_offload": "--deepspeed ./scripts/zero3_offload.json",
            "offload": "--deepspeed ./scripts/zero3_offload.json",
            "max_length": "--model_max_length {length}",
            "four_bits": "--bits 4 --lora_enable True",
            "lora": "--lora_enable True --lora_r 128 --lora_alpha 256",
            "checkpointing": "--gradient_checkpointing True",
        },
        2048,
        ("checkpointing",),
    ),
    Project(  # volcengine/verl, whose arguments are Hydra's
        re.compile(r"verl/trainer/main_ppo\.py|actor_rollout_ref\."),
        {
            **dict.fromkeys(("zero3_offload", "offload"), _VERL_CPU),
            **dict.fromkeys(("halve", "batch"), _VERL_BATCH),
            "checkpointing": "actor_rollout_ref.model.enable_gradient_checkpointing=True",
            "less_engine": "actor_rollout_ref.rollout.gpu_memory_utilization=0.4",
            "fewer_answers": "actor_rollout_ref.rollout.n=4 (half of yours), or half of "
            "data.max_response_length",
            "max_length": "half of data.max_prompt_length and of data.max_response_length",
        },
        2048,
    ),
    Project(  # InternLM/InternLM, whose arguments are a Python file's
        re.compile(r"/internlm/(?:model|core|solver|train|initialize)/"),
        {
            "zero3": "parallel = dict(zero1=8, tensor=4, …) in the configuration's file (the rest "
            "as it was): each card holds a fourth of the weights; zero1 shards the optimizer's "
            "states alone",
            "zero3_offload": "parallel = dict(…, pipeline=2) in the configuration's file (later "
            "releases: pipeline=dict(size=2, …)): half of the layers on each card",
            "load_half": 'model = dict(…, dtype="torch.bfloat16", …) in the configuration\'s file',
            **dict.fromkeys(
                ("halve", "batch"),
                "data = dict(…, micro_bsz=1, …) in the configuration's file, and micro_num as many "
                "times larger",
            ),
            "max_length": "SEQ_LEN = {length} in the configuration's file",
            "checkpointing": "model = dict(…, checkpoint=True, …) in the configuration's file",
        },
        2048,
    ),
    Project(  # OpenGVLab/InternVL
        re.compile(r"internvl/train/\w{1,30}\.py"),
        {
            "zero2": "--deepspeed zero_stage2_config.json",
            "zero3": "--deepspeed zero_stage3_config.json",
            "zero3_offload": '--deepspeed zero_stage3_config.json, and "offload_optimizer": '
            '{{"device": "cpu"}} under "zero_optimization" in it',
            "offload": '--deepspeed zero_stage3_config.json, and "offload_optimizer": '
            '{{"device": "cpu"}} under "zero_optimization" in it',
            "max_pixels": "--max_dynamic_patch 6",
            "max_length": "--max_seq_length {length}",
            "freeze_tower": "--freeze_backbone True",
            "lora": "--use_llm_lora 16 --freeze_llm True",
            "checkpointing": "--grad_checkpoint True",
        },
        4096,
        ("checkpointing",),
    ),
)


def of(facts: Any) -> Project | None:
    """The project whose script is in the traceback of a run of no framework of its own."""
    if facts.framework not in ("", "transformers"):
        return None
    return next((p for p in _PROJECTS if p.path.search(facts.trace)), None)
