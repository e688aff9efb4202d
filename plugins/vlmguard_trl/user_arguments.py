"""What the user asked for, noted before TRL writes over it."""

from __future__ import annotations

import weakref
from typing import Any

from vlmguard.runtime.faults import contain
from vlmguard_transformers import checkpointing

_asked: dict[int, bool | None] = {}  # id(arguments) → use_reentrant


def initialised(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Training arguments are complete."""
    done = wrapped(*args, **kwargs)
    contain("noting what was asked for", _note, instance)
    return done


def _note(arguments: Any) -> None:
    key = id(arguments)
    _asked[key] = checkpointing.asked(arguments)
    weakref.finalize(arguments, _asked.pop, key, None).atexit = False


def of(arguments: Any) -> bool | None:
    """The variant that the user wrote, None for none; what is written now where nobody looked."""
    return _asked.get(id(arguments), checkpointing.asked(arguments))
