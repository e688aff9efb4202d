"""A case's model: built from the seed, tuned, checkpointed; and a case's batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tools.lab.cases import Case
from tools.lab.models.batches import kind


def family(case: Case) -> Any:
    """The module that builds the model."""
    if case.model == "qwen2_vl":
        from tools.lab.models import qwen2_vl

        return qwen2_vl
    from tools.lab.models import two_tower

    return two_tower


def model(case: Case, seed: int) -> Any:
    """The same weights on every rank; peft first and checkpointing then, as trainers do it."""
    torch.manual_seed(seed)
    made = family(case).build(case.model)
    made.train()
    if case.tuning.startswith("lora"):
        _add_lora(made, family(case).LORA)
        made.text_embedding().register_forward_hook(_require_grad)
    for part in made.tower():
        part.requires_grad_(case.tuning in ("full", "lora_tower"))
    if case.checkpointing != "none":
        made.checkpointing(case.checkpointing == "reentrant")
    return made


def _require_grad(module: nn.Module, given: Any, output: torch.Tensor) -> None:
    """What ``enable_input_require_grads`` does."""
    output.requires_grad_(True)


def _add_lora(made: nn.Module, where: str) -> None:
    import peft  # type: ignore[import-not-found]

    # init_lora_weights=False: with B at zero, A would get no gradient in the first step.
    config = peft.LoraConfig(r=4, target_modules=where, init_lora_weights=False)
    peft.inject_adapter_in_model(config, made)
    for name, parameter in made.named_parameters():
        parameter.requires_grad_("lora_" in name)


def batch(case: Case, rank: int, step: int, micro: int, seed: int) -> Any:
    """What the rank sees."""
    return family(case).batch(kind(case, rank, step, micro, seed))
