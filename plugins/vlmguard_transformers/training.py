"""The wrapper around a trainer's training: judge and mend, train, explain, let go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vlmguard import guard
from vlmguard.core.facts import Run
from vlmguard.runtime.faults import contain


def guarded(
    wrapped: Any,
    trainer: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    before: Callable[[Any], Run | None],
    after: Callable[[Any], None],
) -> Any:
    """``wrapped(*args, **kwargs)``, with the guard around it.

    Args:
        before: judges and mends the run of a trainer whose model nothing wraps yet.
        after: lets go of the trainer, however training ended.
    """
    run = contain("judging the run", before, trainer)
    try:
        return wrapped(*args, **kwargs)
    except Exception as error:
        contain("explaining the failure", guard.on_error, run, None, error)
        raise
    finally:
        contain("letting go of the run", after, trainer)
