"""PEFT finds nothing to adapt."""

from __future__ import annotations

from vlmguard.explain.failure import Do, Example, Known, Sign

FAILURE = Known(
    code="VG525",
    name="explain-target-modules",
    title="PEFT found no module with these names",
    zh="PEFT 找不到指定的目标模块",
    why="target_modules or modules_to_save name nothing in this model, "
    "or name a class that PEFT cannot adapt; names move between "
    "releases of transformers",
    do=(
        Do("print([name for name, _ in model.named_modules()]) and take names from there"),
        Do(
            "target_modules='all-linear', with the tower left out by a pattern (exclude_modules)",
            "adapters in more places",
        ),
    ),
    wrong="all-linear reaches into a tower that was to stay frozen (PEFT ignores freezing).",
    signs=(
        Sign("Target modules", also=("not found in the base model",)),
        Sign("is not supported. Currently, only the following modules"),
        Sign("No modules were targeted for adaptation"),
        Sign("Please specify `target_modules`"),
        Sign("Target module", also=("is not supported",)),
        Sign("No module targeted"),
    ),
    examples=(
        Example(
            "ValueError: Target modules {'q_proj_x'} not found in the base "
            "model. Please check the target modules and try again.",
            "peft/tuners/tuners_utils.py, 0.20.0",
        ),
    ),
    evidence="haotian-liu/LLaVA#1647, huggingface/peft#2250; row 13.",
)
