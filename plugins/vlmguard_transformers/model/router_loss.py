"""Whether a run's loss has a part of router logits that transformers records while blocks run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vlmguard.runtime.faults import contain

_LOGITS = "router_logits"
_COEFFICIENT = "router_aux_loss_coef"


def of(trainer: Any) -> bool:
    """Asked for, with a coefficient, of a model whose class records them."""
    return bool(contain("reading the loss of the routers", _of, trainer))


def _of(trainer: Any) -> bool:
    return _asked(trainer) and any(
        _LOGITS in (getattr(type(module), "_can_record_outputs", None) or ())
        for module in trainer.model.modules()
    )


def _asked(trainer: Any) -> bool:
    """By the config, as transformers, LLaMA-Factory and TRL's SFT read it; by a trainer's own
    switch (TRL's and ms-swift's preference trainers); by ms-swift's flag."""
    if getattr(trainer.args, _COEFFICIENT, None):
        return True
    configs = list(_configs(trainer.model))
    weighs = any(getattr(config, _COEFFICIENT, 0) for config in configs)
    asked = any(getattr(config, "output_router_logits", False) for config in configs)
    return weighs and (asked or bool(getattr(trainer, "aux_loss_enabled", False)))


def _configs(model: Any) -> Iterator[Any]:
    config = getattr(model, "config", None)
    yield config
    text = getattr(config, "get_text_config", None)
    if text is not None:
        yield text()
