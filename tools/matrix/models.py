"""The model of a cell, tuned as the cell says, and what all its runs share."""

from __future__ import annotations

from typing import Any

import peft
import torch

from tools.matrix import families
from tools.matrix.cells import Cell
from tools.matrix.rows import NEW_TOKENS
from vlmguard_torch.layout import towers

RATE = 0.2
"""Of SGD: the updates are gradients times this."""
_LANGUAGE = ("q_proj", "v_proj", "up_proj")
_SEEING = ("vision", "visual", "vit", "audio", "multi_modal", "connector", "merger", "resampler")


def make(cell: Cell) -> Any:
    """Everything trained, or LoRA on the language model's projections and all else frozen; of the
    zoo's classes also all but the towers."""
    model = families.of(cell.model).model()
    # Only the number of tokens ends a generation: an end of text would end it on some ranks only.
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    if cell.tuning == "frozen":
        sees = [path for where in towers.seeing(model).values() for path in where]
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not any(name.startswith(f"{path}.") for path in sees))
    if cell.tuning == "lora":
        torch.manual_seed(5)
        names = [name for name, _ in model.named_modules() if _is_language(name)]
        # init_lora_weights=False: B is not zero, so that A has a gradient from the first step.
        told = peft.LoraConfig(r=4, init_lora_weights=False, target_modules=names)
        model = peft.get_peft_model(model, told)
    return model.train()


def _is_language(name: str) -> bool:
    return name.endswith(_LANGUAGE) and not any(part in name for part in _SEEING)


def rows_of(model: Any) -> Any:
    """The model whose forward says which keys a row may have: PEFT's takes all."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def tokens(model: Any, batch: dict[str, torch.Tensor], **how: Any) -> list[int]:
    """New tokens behind a row, greedily."""
    asked = {key: value for key, value in batch.items() if key != "labels"}
    with torch.no_grad():
        out = model.generate(**asked, max_new_tokens=NEW_TOKENS, do_sample=False, **how)
    return [int(number) for number in out[0, -NEW_TOKENS:]]
