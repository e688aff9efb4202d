"""The checkpoint variant that a model's own modules hold: read it, change it.

transformers hands each module the function that it will checkpoint with; frameworks and users do
so before any trainer exists (`model.gradient_checkpointing_enable()`), and the arguments then say
"off".
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vlmguard.core.facts import Checkpointing

if TYPE_CHECKING:
    from vlmguard_torch.transaction import Transaction

_FUNCTION = "_gradient_checkpointing_func"


def _on(model: Any) -> Iterator[tuple[str, Any]]:
    """The modules that will checkpoint, by name."""
    for name, module in model.named_modules():
        if getattr(module, "gradient_checkpointing", False) is True and hasattr(module, _FUNCTION):
            yield name, module


def variant(function: Any) -> bool | None:
    """The ``use_reentrant`` that a checkpoint function will run with; None if untold."""
    for _ in range(4):
        keywords = getattr(function, "keywords", None)
        if isinstance(keywords, dict) and "use_reentrant" in keywords:
            value = keywords["use_reentrant"]
            return None if value is None else bool(value)
        function = getattr(function, "__wrapped__", None)
    return None


def of_model(model: Any) -> Checkpointing:
    """What the model's modules will do; off where none of them checkpoints."""
    found = {variant(getattr(module, _FUNCTION)) for _, module in _on(model)}
    if not found:
        return Checkpointing()
    # One reentrant place is enough to fail. One unknown place leaves the answer open.
    use = True if True in found else None if None in found else False
    return Checkpointing(on=True, use_reentrant=use, asked=use, decided_by="the model")


def checkpointed(model: Any, paths: tuple[str, ...]) -> bool:
    """Whether a module at or below one of these plain paths will checkpoint."""
    from vlmguard_torch.layout.towers import plain

    return any(
        name == path or name.startswith(path + ".")
        for name in (plain(name) for name, _ in _on(model))
        for path in paths
    )


def set_on_model(model: Any, use_reentrant: bool, transaction: Transaction) -> None:
    """Give every module that checkpoints the other variant. One that does not stays as it is."""
    before = of_model(model).use_reentrant
    modules = [module for _, module in _on(model)]
    for module in modules:
        held = getattr(module, _FUNCTION)
        transaction.did(functools.partial(setattr, module, _FUNCTION, held))
    transaction.did(lambda: None, f"use_reentrant: {before} → {use_reentrant}")
    others = [m for m in modules if not isinstance(getattr(m, _FUNCTION), functools.partial)]
    for module in modules:
        held = getattr(module, _FUNCTION)
        if isinstance(held, functools.partial):
            keywords = {**held.keywords, "use_reentrant": use_reentrant}
            setattr(module, _FUNCTION, functools.partial(held.func, *held.args, **keywords))
    if others:
        _enable_again(model, use_reentrant, transaction)


def _enable_again(model: Any, use_reentrant: bool, transaction: Transaction) -> None:
    """A framework put a function of its own around the one that checkpoints: have it made anew."""
    for module in model.modules():
        for name in ("gradient_checkpointing", _FUNCTION):
            if name in vars(module):
                transaction.did(functools.partial(setattr, module, name, vars(module)[name]))
    off = [m for m in model.modules() if getattr(m, "gradient_checkpointing", None) is False]
    model.gradient_checkpointing_enable(
        gradient_checkpointing_kwargs={"use_reentrant": use_reentrant}
    )
    for module in off:
        module.gradient_checkpointing = False
