"""The checkpoint variant that Hugging Face's Trainer will run: read it, change it.

The Trainer hands its arguments to ``gradient_checkpointing_enable``, whose default changed between
releases, and transformers 5.23 renamed both. So a default is never looked up by release: a model
without blocks is asked what it would do.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vlmguard_torch.transaction import Transaction


# Newest first. From 5.23 on both exist and only the first is read. Older releases have the second.
_FLAG = ("activation_checkpointing", "gradient_checkpointing")
_KWARGS = ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs")
# Keywords that the Trainer (from 5.19 on) removes before it calls the model.
_TRAINERS_OWN = ("every_n_layers", "offload")


def _read(args: Any, names: tuple[str, ...]) -> Any:
    return next((getattr(args, name) for name in names if hasattr(args, name)), None)


def flagged(args: Any) -> bool:
    """Whether the Trainer will turn checkpointing on."""
    return bool(_read(args, _FLAG))


def asked(args: Any) -> bool | None:
    """The variant that the user wrote; None for a default."""
    return (_read(args, _KWARGS) or {}).get("use_reentrant")


def effective(args: Any, model: Any) -> bool | None:
    """The variant that the blocks of ``model`` (a PreTrainedModel) will run; None if untold."""
    from transformers import PreTrainedModel

    kind = type(model)
    if "value" in inspect.signature(kind._set_gradient_checkpointing).parameters:
        return None  # the format before 4.35: the model's own code decides
    if kind.gradient_checkpointing_enable is not PreTrainedModel.gradient_checkpointing_enable:
        return asked(args)
    return _ask(_read(args, _KWARGS))


def _ask(kwargs: dict[str, Any] | None) -> bool | None:
    """What this release's own code makes of the keywords."""
    from torch import nn
    from torch.utils.checkpoint import checkpoint
    from transformers import PreTrainedModel

    class Probe(PreTrainedModel):
        supports_gradient_checkpointing = True
        main_input_name = "nothing"
        function: Any = None

        def __init__(self) -> None:
            nn.Module.__init__(self)

        def _set_gradient_checkpointing(
            self, enable: bool = True, gradient_checkpointing_func: Any = None, **_: Any
        ) -> None:
            self.function = gradient_checkpointing_func

    probe = Probe()
    enable = getattr(probe, "activation_checkpointing_enable", probe.gradient_checkpointing_enable)
    if "every_n_layers" in inspect.signature(enable).parameters:  # then {} means: not given
        kwargs = {k: v for k, v in (kwargs or {}).items() if k not in _TRAINERS_OWN} or None
    enable(kwargs)
    default = inspect.signature(checkpoint).parameters["use_reentrant"].default
    variant = probe.function.keywords.get("use_reentrant", default)
    return True if variant is None else bool(variant)  # torch takes None as reentrant, and warns


def set_variant(
    args: Any, before: bool | None, use_reentrant: bool, transaction: Transaction
) -> None:
    """Write the variant under every name that this release has."""
    say = f"use_reentrant: {before} → {use_reentrant}"
    for name in _KWARGS:
        if hasattr(args, name):
            kwargs = {**(getattr(args, name) or {}), "use_reentrant": use_reentrant}
            transaction.set(args, name, kwargs, say)
            say = ""
