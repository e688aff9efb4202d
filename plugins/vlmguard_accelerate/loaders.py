"""The data loaders of this process, in the order in which they were made; nothing is kept alive.

Standard library only: asked for in every process that makes one.
"""

from __future__ import annotations

import weakref
from typing import Any

from vlmguard.runtime.faults import contain

_MOST = 16
"""So many are remembered, of a process that makes one an epoch."""
_made: list[weakref.ref[Any]] = []


def noted(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A loader is made."""
    made = wrapped(*args, **kwargs)
    contain("noting a data loader", _note, instance)
    return made


def _note(loader: Any) -> None:
    if len(_made) < _MOST:
        _made.append(weakref.ref(loader))


def first() -> Any:
    """The oldest that is still there: in a loop, that of training; None if there is none."""
    return next((each for ref in _made if (each := ref()) is not None), None)
