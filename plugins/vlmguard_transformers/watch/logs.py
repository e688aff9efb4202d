"""The ledger's numbers in a trainer's own logs, where the setting ``log`` asks for them: W&B,
TensorBoard and SwanLab show what they are given there."""

from __future__ import annotations

from typing import Any

from vlmguard import guard
from vlmguard.core.runstate import RunState
from vlmguard.ledger.report.scalars import KEPT
from vlmguard.runtime import seams
from vlmguard.runtime.faults import contain
from vlmguard.runtime.seams import Seam

_SEAM = Seam("own log", (), f"{__name__}:log", "adds the ledger's numbers to a trainer's logs")


def watch(trainer: Any, state: RunState) -> None:
    """For as long as the run lasts; nothing is put on a trainer whose user did not ask."""
    if state.settings.log:
        state.at_close(seams.over(type(trainer), "log", _SEAM))


def log(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``Trainer.log`` of a step's loss, with the numbers of the last window that was watched."""
    contain("adding to a trainer's logs", _add, instance, args[0] if args else kwargs.get("logs"))
    return wrapped(*args, **kwargs)


def _add(trainer: Any, logs: Any) -> None:
    state = guard.state_of(trainer)
    if state is not None and isinstance(logs, dict) and "loss" in logs:
        logs.update(state.kept.pop(KEPT, {}))
