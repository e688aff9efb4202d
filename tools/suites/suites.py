"""Which suites there are: what of a checkout is run, in which environment, with which imports."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Suite:
    """One framework's own tests.

    Attributes:
        env: the environment of constraints.txt that has what the checkout needs.
        sources: folders of the checkout for PYTHONPATH.
        imports: modules that the warm process imports.
        files: patterns of test files, below the checkout.
        without: parts of test ids that are left out, each with the reason.
    """

    env: str
    sources: tuple[str, ...]
    imports: tuple[str, ...]
    files: tuple[str, ...]
    without: dict[str, str] = field(default_factory=dict)


SUITES = {
    "accelerate": Suite(
        "trl",
        ("src",),
        ("torch", "transformers", "accelerate", "accelerate.test_utils.testing"),
        tuple(
            f"tests/test_{name}.py"
            for name in (
                "accelerator grad_sync optimizer scheduler state_checkpointing data_loader hooks "
                "kwargs_handlers activation_checkpointing_offload memory_utils dataclasses offload "
                "modeling_utils big_modeling utils compile logging"
            ).split()
        ),
    ),
    "trl": Suite(
        "trl",
        (".",),
        ("torch", "transformers", "trl", "peft", "trl.trainer.sft_trainer",
         "trl.trainer.grpo_trainer", "trl.trainer.dpo_trainer"),
        ("tests/test_*_trainer.py", "tests/test_callbacks.py", "tests/test_utils.py",
         "tests/test_data_utils.py", "tests/test_activation_offloading.py",
         "tests/experimental/test_*_trainer*.py"),
    ),
    "peft": Suite(
        "trl",
        ("src",),
        ("torch", "transformers", "peft"),
        tuple(
            f"tests/test_{name}.py"
            for name in "cpt helpers loraplus lorafa other trainable_tokens low_level_api "
            "initialization adamss_asa velora integrations".split()
        ),
    ),
    "transformers": Suite(
        "llamafactory",
        ("src",),
        ("torch", "transformers", "transformers.testing_utils", "transformers.trainer"),
        ("tests/trainer/test_*.py",),
        {"test_trainer_fsdp.py": "needs GPUs", "test_trainer_tpu.py": "needs a TPU"},
    ),
}  # fmt: skip


def files(suite: Suite, checkout: Path) -> list[str]:
    """The test files that are run, relative to the checkout."""
    found = {file for pattern in suite.files for file in checkout.glob(pattern)}
    names = sorted(str(file.relative_to(checkout)) for file in found)
    return [name for name in names if not any(part in name for part in suite.without)]
