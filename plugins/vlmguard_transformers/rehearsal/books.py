"""The ledger of a pass in which the guard is off: it reads, and changes no number of the run.

Its warnings go into the pass's report, as the guard's do. Under ZeRO-3 it gathers the head once a
window, as in a guarded run.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vlmguard.ledger import speak
from vlmguard.ledger.account import Verdict
from vlmguard.ledger.report.record import KIND
from vlmguard.runtime import report
from vlmguard_torch import stepping
from vlmguard_torch.ledger import wrappers
from vlmguard_torch.ledger.accounts import strategy_of
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.watch import ledger


def keep(trainer: Any, every: bool) -> Callable[[], None] | None:
    """Follow a ``trainer`` whose optimizer is made. Rank 0 writes.

    Args:
        every: each window, not only the first ones and those of a new kind.

    Returns:
        What ends it, once the last step is over; None where nothing is read: a compiled model is
        left alone, as in a guarded run.
    """
    if hf.compiles(trainer):
        return None
    wrapped = trainer.model_wrapped
    engine = wrapped if hasattr(wrapped, "zero_optimization_stage") else None
    with _not_off():
        made = ledger.begin(
            trainer, stepping.own(trainer.optimizer), setting=1 if every else "first",
            on_verdicts=_write, strategy=strategy_of(trainer.model, wrapped, engine),
        )  # fmt: skip
    if made is None:
        return None
    if engine is not None:
        _at_step(engine)

    def end() -> None:
        made.close()
        if engine is not None:
            vars(engine).pop("step", None)

    return end


def _at_step(engine: Any) -> None:
    """What a seam does where the guard is on."""
    step = engine.step

    @functools.wraps(step)
    def stepped(*args: Any, **kwargs: Any) -> Any:
        return wrappers.engine_step(step, engine, args, kwargs)

    engine.step = stepped


def _write(step: int, verdicts: Sequence[Verdict]) -> None:
    read = {verdict.station: {"state": verdict.state} for verdict in verdicts}
    report.write(KIND, {"step": step, "stations": read})
    for entry in (entry for verdict in verdicts for entry in verdict.entries):
        found = speak.finding(entry)
        report.write("finding", {"code": found.code, "level": found.level, "why": found.why})


@contextlib.contextmanager
def _not_off() -> Iterator[None]:
    """Where ``VLMGUARD=off`` keeps all else away."""
    before = os.environ.pop("VLMGUARD", None)
    try:
        yield
    finally:
        if before is not None:
            os.environ["VLMGUARD"] = before
