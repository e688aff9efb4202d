"""Commands that must go from broken to right, and healthy ones, as data."""

from __future__ import annotations

from dataclasses import dataclass

from tests.kit.trainers import (
    ACCELERATE,
    DEEPSPEED,
    Command,
    llamafactory,
    loop,
    plain,
    script,
    trl,
    zero,
)

ONCE = "Expected to mark a variable ready only once"
REDUCED = "has already been reduced"
UNFINISHED = "Expected to have finished reduction"
HANGS = "hang"
"""It hangs, or, under gloo, ends in whatever the first collective on which ranks part says."""
WRONG = "wrong"
"""Exit 0, and weights that are not those of the reference."""

LORA = ["--use_peft", "--lora_r", "4", "--lora_target_modules", "all-linear"]
LORA_LLM = ["--use_peft", "--lora_r", "4", "--lora_target_modules", "q_proj", "v_proj"]
"""Names that the tower does not have: it stays frozen."""
REENTRANT = ["--gradient_checkpointing_kwargs", '{"use_reentrant": true}']
CHECKPOINTS = ["--gradient_checkpointing", "true"]
NONE = ["--gradient_checkpointing", "false"]
UNUSED = ["--ddp_find_unused_parameters", "true"]
EXPERTS = ["--experts", "true"]
ALL, LANGUAGE = ["--lora", ".*"], ["--lora", ".*language_model.*"]
# TRL gathers images for its log on those ranks that have some: a hang under any strategy.
GRPO = ["--reward_funcs", "alternating.reward", "--num_generations", "2",
        "--max_completion_length", "8", "--per_device_train_batch_size", "2",
        "--shuffle_dataset", "False", "--log_multimodal", "False"]  # fmt: skip
FSDP2 = ["--fsdp", "full_shard auto_wrap", "--fsdp_config", "{data}/fsdp2.json"]
TOWER = {"freeze_vision_tower": False, "freeze_multi_modal_projector": False}
UNCHECKED = {"disable_gradient_checkpointing": True}
OLD_LF = "llamafactory-0.9.3"
IN_LOOP, IN_TWOS = ["--checkpointing", "default"], ["--accumulate", "2"]
LF_ZERO2, LF_ZERO3 = "{data}/zero2.json", "{data}/zero3.json"


@dataclass(frozen=True)
class Case:
    """One user command.

    Attributes:
        broken: the message of the crash with the guard off, HANGS or WRONG.
        fixes: codes that the report must name as fixed.
        reference: the right run.
        ranks: in how many ranks it is run.
        same_adapters: LoRA begins with weights that names decide: these releases draw it otherwise.
    """

    name: str
    command: Command
    broken: str
    fixes: frozenset[str]
    reference: Command
    ranks: int = 2
    limit: float = 150
    same_adapters: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """What all its runs have besides."""
        return {"VLMGUARD_TEST_SAME_ADAPTERS": "1"} if self.same_adapters else {}


def case(name: str, command: Command, broken: str, fixes: str, reference: Command,
         ranks: int = 2, **more: object) -> Case:  # fmt: skip
    return Case(name, command, broken, frozenset(fixes.split()), reference, ranks, **more)


def sft(data: str, *flags: str, **more: object) -> Command:
    return trl("sft", f"sft_{data}", *flags, **more)  # type: ignore[arg-type]


def kto(data: str, *flags: str, **more: object) -> Command:
    twos = ["--per_device_train_batch_size", "2"]
    return trl("kto", f"kto_{data}", *twos, *flags, **more)  # type: ignore[arg-type]


PHASES, MIXED = sft("phases", *NONE), sft("mixed", *NONE)
PHASES_3 = sft("phases_3", *NONE)
LLAVA_PHASES = sft("phases", *NONE, model="llava")
DPO_PHASES = trl("dpo", "dpo_phases", *NONE)
LF_LORA = llamafactory("iv", **TOWER, **UNCHECKED)
LF_FULL = llamafactory("iv", tuning="full", **TOWER, **UNCHECKED)
TRL = [
    case("trl-sft-zero3-phases", sft("phases", *zero(3)), WRONG, "VG108", PHASES),
    case("trl-sft-zero3-phases-3", sft("phases_3", *zero(3)), WRONG, "VG108", PHASES_3, ranks=3),
    case("trl-dpo-zero3-phases-3", trl("dpo", "dpo_phases_3", *zero(3)), WRONG, "VG108",
         trl("dpo", "dpo_phases_3", *NONE), ranks=3),
    case("trl-module-zero3-phases-3", sft("phases_3", *zero(3), module=True), WRONG, "VG108",
         PHASES_3, ranks=3),
    case("trl-sft-zero3-phases-llava", sft("phases", *zero(3), model="llava"), WRONG, "VG108",
         LLAVA_PHASES),
    case("trl-module-zero3-phases", sft("phases", *zero(3), module=True), WRONG, "VG108", PHASES),
    case("trl-dpo-zero3-phases", trl("dpo", "dpo_phases", *zero(3)), WRONG, "VG108", DPO_PHASES),
    case("trl-dpo-zero3-phases-llava", trl("dpo", "dpo_phases", *zero(3), model="llava"), WRONG,
         "VG108", trl("dpo", "dpo_phases", *NONE, model="llava")),
    case("trl-sft-zero3-mixed", sft("mixed", *zero(3)), HANGS, "VG106", MIXED),
    case("trl-sft-zero2-mixed", sft("mixed", *zero(2)), HANGS, "VG106", MIXED),
    case("trl-sft-fsdp2-mixed", sft("mixed", *FSDP2), HANGS, "VG106", MIXED),
    case("trl-sft-zero3-mixed-frozen", sft("mixed", *LORA_LLM, *zero(3)), HANGS, "VG106",
         sft("mixed", *LORA_LLM, *NONE)),
    case("trl-sft-fsdp2-mixed-frozen", sft("mixed", *LORA_LLM, *FSDP2), HANGS, "VG106",
         sft("mixed", *LORA_LLM, *NONE)),
    case("trl-sft-lora-reentrant", sft("image", *LORA, *REENTRANT), ONCE, "VG101",
         sft("image", *LORA, *NONE)),
    case("trl-grpo-zero3-mixed", trl("grpo", "grpo_mixed", *GRPO, *zero(3)), HANGS, "VG106",
         trl("grpo", "grpo_mixed", *GRPO, *NONE)),
    case("trl-0.25-sft-lora", sft("image", *LORA, over="trl-0.25"), ONCE, "VG101",
         sft("image", *LORA, *NONE, over="trl-0.25"), same_adapters=True),
]  # fmt: skip
LLAMAFACTORY = [
    case("lf-lora-iv", llamafactory("iv", **TOWER), WRONG, "VG107", LF_LORA),
    case("lf-lora-iv-3", llamafactory("iv", **TOWER), WRONG, "VG107", LF_LORA, ranks=3),
    case("lf-lora-zero3-iv", llamafactory("iv", deepspeed=LF_ZERO3, **TOWER), WRONG, "VG102",
         LF_LORA),
    case("lf-full-zero3-iv", llamafactory("iv", tuning="full", deepspeed=LF_ZERO3, **TOWER),
         WRONG, "VG102", LF_FULL),
    case("lf-full-zero2-iv", llamafactory("iv", tuning="full", deepspeed=LF_ZERO2, **TOWER),
         REDUCED, "VG102", LF_FULL),
    case("lf-0.9.3-lora-iv", llamafactory("iv", over=OLD_LF, **TOWER), WRONG, "VG107",
         llamafactory("iv", over=OLD_LF, **TOWER, **UNCHECKED)),
    case("lf-lora-unused", llamafactory("image", ddp_find_unused_parameters=True), ONCE, "VG101",
         llamafactory("image", **UNCHECKED)),
]  # fmt: skip
PLAIN = [
    case("plain-mixed", plain("mixed", *CHECKPOINTS), HANGS, "VG106",
         plain("mixed", *NONE, *UNUSED)),
    case("plain-mixed-accelerate", plain("mixed", *CHECKPOINTS, launcher=ACCELERATE), HANGS,
         "VG106", plain("mixed", *NONE, *UNUSED)),
    case("plain-mixed-3", plain("mixed", *CHECKPOINTS), HANGS, "VG106",
         plain("mixed", *NONE, *UNUSED), ranks=3),
    case("plain-zero3-phases", plain("phases", *CHECKPOINTS, *zero(3)), WRONG, "VG108",
         plain("phases", *NONE, *UNUSED)),
    case("plain-lora-reentrant", plain("image", *CHECKPOINTS, *REENTRANT, *ALL), ONCE, "VG101",
         plain("image", *NONE, *ALL)),
    case("plain-iv-reentrant", plain("image+video", *CHECKPOINTS, *REENTRANT), ONCE, "VG101",
         plain("image+video", *NONE)),
    case("plain-zero3-iv-reentrant", plain("image+video", *CHECKPOINTS, *REENTRANT, *zero(3)),
         WRONG, "VG102", plain("image+video", *NONE)),
    case("plain-on-the-model", plain("image+video", "--on_the_model", "true", *zero(3)),
         WRONG, "VG102", plain("image+video", *NONE)),
    case("plain-4.57-lora", plain("image", *CHECKPOINTS, *ALL, over="trl-0.25"), ONCE, "VG101",
         plain("image", *NONE, *ALL, over="trl-0.25")),
    case("loop-mixed", loop("mixed", *IN_LOOP), UNFINISHED, "VG106",
         loop("mixed", "--find_unused")),
    case("loop-zero3-mixed", loop("mixed", *IN_LOOP, *zero(3)), HANGS, "VG106",
         loop("mixed", "--find_unused")),
    case("loop-zero3-mixed-llava", loop("mixed", *IN_LOOP, *zero(3), model="llava"), HANGS,
         "VG106", loop("mixed", "--find_unused", model="llava")),
    case("loop-zero3-phases", loop("phases", *IN_LOOP, *zero(3)), WRONG, "VG108",
         loop("phases", "--find_unused")),
    case("loop-fsdp2-mixed", loop("mixed", *IN_LOOP, "--fsdp"), HANGS, "VG106",
         loop("mixed", "--find_unused")),
    case("loop-zero3-crossed", loop("crossed", *IN_LOOP, *IN_TWOS, *zero(3)), HANGS, "VG106",
         loop("crossed", "--find_unused", *IN_TWOS)),
    case("loop-crossed", loop("crossed", *IN_LOOP, *IN_TWOS), UNFINISHED, "VG106",
         loop("crossed", "--find_unused", *IN_TWOS)),
    case("loop-zero2-iv-reentrant", loop("image+video", "--checkpointing", "reentrant", *zero(2)),
         REDUCED, "VG102", loop("image+video")),
]  # fmt: skip
OTHERS = [
    case("trl-kto-zero3-mixed", kto("mixed", *zero(3)), HANGS, "VG106", kto("mixed", *NONE)),
    case("trl-kto-zero3-phases-llava", kto("phases", *zero(3), model="llava"), WRONG, "VG108",
         kto("phases", *NONE, model="llava")),
    case("trl-reward-gemma3", trl("reward", "dpo_mixed", model="gemma3"), UNFINISHED, "VG106",
         trl("reward", "dpo_mixed", *NONE, model="gemma3")),
    case("trl-sft-zero3-mixed-gemma3", sft("mixed", *zero(3), model="gemma3"), HANGS, "VG106",
         sft("mixed", *NONE, model="gemma3")),
    case("trl-dpo-zero3-phases-qwen2_5", trl("dpo", "dpo_phases", *zero(3), model="qwen2_5_vl"),
         WRONG, "VG108", trl("dpo", "dpo_phases", *NONE, model="qwen2_5_vl")),
    case("plain-zero3-phases-llava", plain("phases", *CHECKPOINTS, *zero(3), model="llava"), WRONG,
         "VG108", plain("phases", *NONE, *UNUSED, model="llava")),
    case("trl-orpo-text", script("preferences orpo"), UNFINISHED, "VG106",
         script("preferences orpo", *NONE)),
    case("trl-orpo-lora-reentrant", script("preferences orpo", "--lora", "true", *REENTRANT,
                                           *UNUSED), ONCE, "VG101",
         script("preferences orpo", "--lora", "true", *NONE)),
    case("lf-lora-iv-qwen2_5", llamafactory("iv", model="qwen2_5_vl", **TOWER), WRONG, "VG107",
         llamafactory("iv", model="qwen2_5_vl", **TOWER, **UNCHECKED)),
    case("lf-full-zero3-iv-qwen2_5",
         llamafactory("iv", model="qwen2_5_vl", tuning="full", deepspeed=LF_ZERO3, **TOWER), WRONG,
         "VG102", llamafactory("iv", model="qwen2_5_vl", tuning="full", **TOWER, **UNCHECKED)),
    case("lf-lora-unused-gemma3",
         llamafactory("image", model="gemma3", ddp_find_unused_parameters=True), ONCE, "VG101",
         llamafactory("image", model="gemma3", **UNCHECKED)),
    case("lf-full-llava", llamafactory("image", model="llava", tuning="full", **TOWER), UNFINISHED,
         "VG106", llamafactory("image", model="llava", tuning="full", **TOWER, **UNCHECKED)),
    case("plain-experts", script("language", *EXPERTS, *CHECKPOINTS, *REENTRANT), WRONG, "VG116",
         script("language", *EXPERTS, *NONE)),
    case("plain-zero3-iv-qwen2_5",
         plain("image+video", *CHECKPOINTS, *REENTRANT, *zero(3), model="qwen2_5_vl"), WRONG,
         "VG102", plain("image+video", *NONE, model="qwen2_5_vl")),
]  # fmt: skip
"""Other trainers and models than those of the facts."""
BUT_MERGER = ["--frozen", r"visual\.(?!merger)"]
THREADS = [
    case("trl-6617", script("text_only", over="trl-0.25"), UNFINISHED, "VG106",
         script("text_only", *NONE, over="trl-0.25")),
    case("trl-4782", script("preferences dpo", over="trl-0.25"), ONCE, "VG101",
         script("preferences dpo", *NONE, over="trl-0.25")),
    case("2u1-57", plain("mixed", *CHECKPOINTS, *BUT_MERGER, *zero(3), launcher=DEEPSPEED), HANGS,
         "VG106", plain("mixed", *NONE, *UNUSED, *BUT_MERGER)),
    case("qwen3-vl-126", plain("with video", *CHECKPOINTS, *zero(3)), HANGS, "VG106",
         plain("with video", *NONE)),
]  # fmt: skip
"""Users' scripts, after threads that are theirs: huggingface/trl#6617 and #4782,
2U1/Qwen-VL-Series-Finetune#57, QwenLM/Qwen3-VL#126. What trl#6617 shows is right in TRL 1.16 by
default."""
CASES = {each.name: each for each in (*TRL, *LLAMAFACTORY, *PLAIN, *OTHERS, *THREADS)}
TWO_FORWARDS = plain("image", "--two_forwards", "true", *CHECKPOINTS, *REENTRANT, *zero(3))
ONE_LOSS = plain("image", "--two_forwards", "true", *NONE)
HEALTHY = {
    "trl-sft-mixed": sft("mixed"),
    "trl-sft-lora": sft("image", *LORA),
    "trl-sft-zero2-mixed-frozen": sft("mixed", *LORA_LLM, *zero(2)),
    "trl-sft-lora-zero3": sft("image", *LORA, *zero(3)),
    "trl-sft-text": script("text_only"),
    "trl-sft-zero3": sft("image", *zero(3)),
    "lf-dpo-lora": llamafactory("dpo_image", stage="dpo", pref_beta=0.1),
    "lf-zero3-phases": llamafactory("phases", tuning="full", deepspeed=LF_ZERO3, **TOWER),
    "lf-zero3-phases-gemma3": llamafactory("phases", model="gemma3", tuning="full",
                                           deepspeed=LF_ZERO3, **TOWER),
    "lf-zero3-phases-llava": llamafactory("phases", model="llava", tuning="full",
                                          deepspeed=LF_ZERO3, **TOWER),
    "plain-lora": plain("image", *CHECKPOINTS, *ALL),
    "plain-zero2": plain("image", *CHECKPOINTS, *zero(2)),
    "loop-image": loop("image", *IN_LOOP),
    "loop-zero3": loop("image", *IN_LOOP, *zero(3)),
}
