"""The optimizers of this process, and which parameters any of them holds."""

from __future__ import annotations

import weakref
from typing import Any

from vlmguard_torch import stepping
from vlmguard_torch.ledger import accounts

_optimizers: weakref.WeakSet[Any] = weakref.WeakSet()


def note(optimizer: Any) -> None:
    """An optimizer is made."""
    _optimizers.add(optimizer)


def optimizers() -> list[Any]:
    """Those that are still there."""
    return list(_optimizers)


def held(optimizer: Any) -> set[int]:
    """Identities of the parameters that this one, or any other of the process, holds."""
    found = set(accounts.groups(optimizer)) | stepping.held(optimizer)
    for each in optimizers():
        found |= stepping.held(each)
    return found
