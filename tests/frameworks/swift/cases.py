"""The cases that must go from broken to right, as data: one user command each."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

EXTERNAL = Path(__file__).resolve().parents[2] / "kit" / "external"
PER_IMAGE = ["--external_plugins", str(EXTERNAL / "tower_per_image.py")]
SFT, DPO, GRPO = ["sft"], ["rlhf", "--rlhf_type", "dpo"], ["rlhf", "--rlhf_type", "grpo"]
REWARD = ["--external_plugins", str(EXTERNAL / "reward.py"), "--reward_funcs", "alternating",
          "--num_generations", "2", "--max_completion_length", "8"]  # fmt: skip
NO_EMBEDDINGS = ["--external_plugins", str(EXTERNAL / "no_embeddings.py")]
CHORD = ["--chord_sft_dataset", "{data}/image.jsonl", "--chord_sft_per_device_train_batch_size",
         "1", "--chord_mu_warmup_steps", "0", "--chord_mu_decay_steps", "100", "--chord_mu_peak",
         "0.5", "--chord_mu_valley", "0.5"]  # fmt: skip
REENTRANT = ["--gradient_checkpointing_kwargs", '{"use_reentrant": true}']
LORA, FULL = ["--tuner_type", "lora"], ["--tuner_type", "full"]
VISION, ALIGNER = ["--freeze_vit", "false"], ["--freeze_aligner", "false"]
UNUSED = ["--ddp_find_unused_parameters", "true"]
NO_CHECKPOINTS = ["--gradient_checkpointing", "false", "--vit_gradient_checkpointing", "false"]
ONCE = "Expected to mark a variable ready only once"
REDUCED = "has already been reduced"


def zero(stage: int) -> list[str]:
    return ["--deepspeed", f"zero{stage}"]


@dataclass(frozen=True)
class Case:
    """Attributes:
    broken: the message of the crash with the guard off, "hang", or "wrong" (exit 0).
    fixes: codes that the report must name as fixed.
    reference: flags instead of ``flags`` for the right run; None: no checkpointing.
    cold: by the very command; else in forked ranks (tests/kit/warm.py).
    """

    name: str
    verb: list[str]
    model: str
    data: str
    flags: list[str]
    broken: str
    fixes: set[str]
    reference: list[str] | None = None
    env: str = "swift"
    over: str = ""
    limit: float = 240
    extra: dict[str, str] = field(default_factory=dict)
    cold: bool = False

    def right(self) -> list[str]:
        off = NO_CHECKPOINTS if self.env == "swift" else NO_CHECKPOINTS[:2]
        return self.reference if self.reference is not None else [*self.flags, *off]


@dataclass
class Healthy:
    """A command that works without the guard."""

    name: str
    verb: list[str]
    data: str
    flags: list[str]
    model: str = "qwen2_vl"
    cold: bool = False


PREDICTS = ["--predict_with_generate", "true", "--eval_strategy", "steps", "--eval_steps", "1",
            "--val_dataset", "{data}/image.jsonl", "--max_new_tokens", "4",
            "--external_plugins", str(EXTERNAL / "answers.py"), "--eval_metric", "answers",
            "--metric_for_best_model", "answers"]  # fmt: skip
OLD_LORA = ["--train_type", "lora"]
LLAVA = [*FULL, *VISION, *ALIGNER]
CASES = [
    Case("sft-lora", SFT, "qwen2_vl", "image", [*LORA, *REENTRANT], ONCE, {"VG101"}, cold=True),
    Case("sft-lora-vision", SFT, "qwen2_vl", "image", [*LORA, *REENTRANT, *VISION], ONCE,
         {"VG101"}),
    Case("sft-lora-unused", SFT, "qwen2_vl", "image", [*LORA, *REENTRANT, *UNUSED], ONCE,
         {"VG101"}),
    Case("sft-lora-mixed", SFT, "qwen2_vl", "mixed", [*LORA, *REENTRANT], ONCE, {"VG101"}),
    Case("sft-full-unused", SFT, "qwen2_vl", "image",
         [*FULL, *REENTRANT, *VISION, *ALIGNER, *UNUSED], ONCE, {"VG101"}),
    Case("grpo-lora", GRPO, "qwen2_vl", "grpo", [*LORA, *REENTRANT, *REWARD], ONCE, {"VG101"},
         cold=True),
    Case("dpo-zero2-per-image", DPO, "qwen2_vl", "dpo_several",
         [*FULL, *VISION, *zero(2), *PER_IMAGE], REDUCED, {"VG102"}, cold=True),
    Case("sft-zero2-per-image", SFT, "qwen2_vl", "several",
         [*FULL, *VISION, *zero(2), *PER_IMAGE], REDUCED, {"VG102"}),
    Case("sft-zero2-lora-no-embeddings", SFT, "qwen2_vl", "image",
         [*LORA, *REENTRANT, *VISION, *zero(2), *NO_EMBEDDINGS], "wrong", {"VG104"}),
    Case("dpo-zero3-per-image", DPO, "qwen2_vl", "dpo_pairs",
         [*FULL, *VISION, *zero(3), *PER_IMAGE], "wrong", {"VG102"}),
    Case("sft-zero3-per-image", SFT, "qwen2_vl", "several",
         [*FULL, *VISION, *zero(3), *PER_IMAGE], "wrong", {"VG102"}),
    Case("qwen3-ranks-differ", SFT, "qwen3_vl", "mixed", [*FULL, *VISION, *ALIGNER], "hang",
         {"VG106"}, limit=75),
    Case("chord-zero3-full", GRPO, "qwen2_vl", "grpo", [*FULL, *zero(3), *REWARD, *CHORD],
         "wrong", {"VG103"}),
    Case("chord-zero3-lora", GRPO, "qwen2_vl", "grpo", [*LORA, *zero(3), *REWARD, *CHORD],
         "wrong", {"VG103"}),
    Case("llava-zero3-text-step", SFT, "llava", "phases", [*LLAVA, *zero(3)], "wrong",
         {"VG108"}, reference=[*LLAVA, *zero(2)]),
    Case("llava-zero3-predict", SFT, "llava", "image", [*LLAVA, *zero(3), *PREDICTS], "wrong",
         {"VG112"}),
    Case("old-sft-lora", SFT, "qwen2_vl", "image", OLD_LORA, ONCE, {"VG101"}, env="swift32"),
    # 3.2.0 samples alike on all ranks: a group spread over them has two equal completions, whose
    # advantages cancel, so that nothing would move. With two samples a rank, a group is on one.
    Case("old-grpo-lora", GRPO, "qwen2_vl", "grpo",
         [*OLD_LORA, *REWARD, "--per_device_train_batch_size", "2"], ONCE, {"VG101"},
         env="swift32"),
    # Between the two: 3.12 names the tuner's flag as 3.2 does, and both read transformers 4.57.
    Case("3.12-sft-lora", SFT, "qwen2_vl", "image", [*OLD_LORA, *REENTRANT], ONCE, {"VG101"},
         over="swift-3.12"),
    Case("4.2-sft-zero2-per-image", SFT, "qwen2_vl", "several",
         [*FULL, *VISION, *zero(2), *PER_IMAGE], REDUCED, {"VG102"}, over="swift-4.2"),
]  # fmt: skip
HEALTHY = [
    Healthy("lora", SFT, "image", LORA, cold=True),
    Healthy("full", SFT, "image", FULL),
    Healthy("full-vision-mixed", SFT, "mixed", [*FULL, *VISION, *ALIGNER]),
    Healthy("zero1", SFT, "image", [*FULL, *VISION, *zero(1)]),
    Healthy("zero2", SFT, "image", [*FULL, *VISION, *zero(2)]),
    Healthy("zero3", SFT, "image", [*FULL, *VISION, *zero(3)], cold=True),
    Healthy("zero3-lora", SFT, "image", [*LORA, *zero(3)]),
    Healthy("zero1-per-image", SFT, "several", [*FULL, *VISION, *zero(1), *PER_IMAGE]),
    # Nobody ever uses the tower, so there is nothing to complete.
    Healthy("llava-text-zero1", SFT, "text", [*LLAVA, *zero(1)], "llava"),
    Healthy("dpo", DPO, "dpo", LORA),
    Healthy("grpo", GRPO, "grpo", [*LORA, *REWARD]),
]
