"""The ledger of a pass in which the guard is off: it reads, and nothing of the run is changed.

Its warnings go into the pass's report, as the guard's do.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from vlmguard.ledger import speak
from vlmguard.ledger.account import Verdict
from vlmguard.ledger.record import KIND
from vlmguard.runtime import report
from vlmguard_torch import stepping
from vlmguard_torch.ledger import plain
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.watch import ledger


def keep(trainer: Any) -> None:
    """Follow the first windows of ``trainer``, whose optimizer is made. Rank 0 writes.

    A compiled model is left alone, as in a guarded run.
    """
    if hf.compiles(trainer):
        return
    with _not_off():
        optimizer = stepping.own(trainer.optimizer)
        ledger.begin(trainer, optimizer, setting="first", on_verdicts=_write)
    engine = getattr(trainer, "deepspeed", None) or getattr(trainer, "model_wrapped", None)
    if hasattr(engine, "zero_optimization_stage"):  # with the guard on, a seam does this
        step = engine.step
        engine.step = functools.wraps(step)(
            lambda *args, **kwargs: plain.engine_step(step, engine, args, kwargs)
        )


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
