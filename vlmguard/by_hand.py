"""`vlmguard.guard_model`: the guard for a training loop that no adapter knows."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from vlmguard.runtime.faults import contain
from vlmguard.runtime.stub import is_off

Model = TypeVar("Model")


def guard_model(
    model: Model,
    optimizer: Any = None,
    dataset: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
) -> Model:
    """Guard the training of ``model`` by a loop of your own.

    Call it once, on every rank, when the model is final and before the first step. You need it only
    where nothing takes the model that vlmguard knows: no Trainer, no ``Accelerator.prepare``, no
    ``DistributedDataParallel``, ``fully_shard`` or ``deepspeed.initialize``. If one of these takes
    the model later, its run goes on from there.

    A model without towers, or of which nothing trains, is left alone, and one line says so. A
    model that is guarded already is left as it is. With ``VLMGUARD=off`` nothing is done.

    Args:
        model: a `torch.nn.Module`. It is not wrapped.
        optimizer: the `torch.optim.Optimizer` that moves it. If not given, each optimizer of the
            process that holds parameters of the model is found at the first forward.
        dataset: the rows that are trained on. If not given, the first `DataLoader` is asked.
        collate_fn: makes a batch of a list of rows. If not given, it is torch's default.

    Returns:
        The same model.

    Raises:
        TypeError: an argument is not what it should be.
        vlmguard.core.errors.Stop: this run would go wrong.
        vlmguard.core.errors.SettingsError: a setting cannot be read.
    """
    if is_off():
        return model
    _check("model", model, "a torch.nn.Module", "named_parameters")
    if optimizer is not None:
        _check("optimizer", optimizer, "a torch.optim.Optimizer", "param_groups")
    if dataset is not None:
        _check("dataset", dataset, "a data set", "__getitem__", "__iter__")
    if collate_fn is not None and not callable(collate_fn):
        raise TypeError(f"guard_model: collate_fn must be callable, not {_kind(collate_fn)}")
    contain("guarding a model", _begin, model, optimizer, dataset, collate_fn)
    return model


def _begin(*given: Any) -> None:
    importlib.import_module("vlmguard_accelerate.by_hand").begin(*given)


def _check(name: str, value: Any, wanted: str, *names: str) -> None:
    """Raise TypeError if it is a class, or has none of these attributes."""
    if isinstance(value, type) or not any(hasattr(value, each) for each in names):
        raise TypeError(f"guard_model: {name} must be {wanted}, not {_kind(value)}")


def _kind(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
