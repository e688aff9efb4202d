"""Accelerators that belong to a trainer: no loop of the user's own trains by them.

Light, since a Trainer may be made in a program that never trains.
"""

from __future__ import annotations

import weakref
from typing import Any

from vlmguard.runtime.faults import contain

of_trainers: weakref.WeakSet[Any] = weakref.WeakSet()


def note(trainer: Any) -> None:
    """Remember whose accelerator it is, by whatever method it was made."""
    accelerator = getattr(trainer, "accelerator", None)
    if accelerator is not None:
        of_trainers.add(accelerator)


def created(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A Trainer has been made, and its Accelerator with it."""
    made = wrapped(*args, **kwargs)
    contain("noting a trainer's accelerator", note, instance)
    return made
