"""The freeze policy on a model's parameters: check that it can be obeyed, then obey it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlmguard.core import settings
from vlmguard.core.errors import SettingsError
from vlmguard_torch.layout import parameters
from vlmguard_torch.layout.towers import plain
from vlmguard_torch.transaction import Transaction

Paths = Mapping[str, tuple[str, ...]]


def check(model: Any, policy: tuple[str, ...], paths: Paths) -> None:
    """Raise `SettingsError` for a word that names nothing, or a policy that leaves nothing."""
    if not isinstance(policy, tuple):  # this is a fault of a caller, not of the user's
        raise TypeError(f"a freeze policy was read as {type(policy).__name__}")
    named = parameters.matching(model, policy, paths)
    for word, pairs in named.items():
        if not pairs:
            known = {kind for kind, found in paths.items() if found} | _modules(model)
            raise SettingsError(
                f"freeze: {word!r} matches no parameter{settings.nearest(word, known)}"
            )
    frozen = {id(p) for pairs in named.values() for _, p in pairs}
    trains = any(p.requires_grad and id(p) not in frozen for _, p in model.named_parameters())
    if policy and not trains:
        raise SettingsError(f"freeze = {list(policy)} leaves nothing to train")


def _modules(model: Any) -> set[str]:
    """Paths of all modules that hold a parameter, however deep."""
    found = set()
    for name, _ in model.named_parameters():
        path = plain(name).rpartition(".")[0]
        while path and path not in found:
            found.add(path)
            path = path.rpartition(".")[0]
    return found


def unfrozen(model: Any, policy: tuple[str, ...], paths: Paths) -> tuple[str, ...]:
    """Names of parameters that train against the policy."""
    named = parameters.matching(model, policy, paths)
    return tuple(sorted({n for pairs in named.values() for n, p in pairs if p.requires_grad}))


def obey(named: Mapping[str, list[tuple[str, Any]]], transaction: Transaction) -> None:
    """Freeze what `parameters.matching` found for each word."""
    for word, pairs in named.items():
        trainable = [p for _, p in pairs if p.requires_grad]
        for parameter in trainable:
            parameter.requires_grad_(False)
            transaction.did(lambda p=parameter: p.requires_grad_(True))
        if trainable:
            said = f"{word}: {len(trainable)} parameter tensors trainable → frozen"
            transaction.did(lambda: None, said, "freeze")
