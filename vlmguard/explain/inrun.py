"""The catalogue asked from inside a run: an exception instead of a log, the guard's own facts."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from vlmguard.explain import classify, phases
from vlmguard.explain.catalogue import load
from vlmguard.explain.event import Event
from vlmguard.explain.failure import Known, flat
from vlmguard.explain.lines import Line
from vlmguard.explain.logfacts import Facts

if TYPE_CHECKING:
    from vlmguard.core.facts import Batch, Failure, Run

_last: tuple[Failure, Known | None] | None = None


def classified(failure: Failure) -> Known | None:
    """The catalogue's entry that ``failure`` is. Every rule asks: the last answer is kept."""
    global _last
    if _last is None or _last[0] is not failure:
        _last = (failure, classify.classify(event(failure), load()))
    return _last[1]


def event(failure: Failure) -> Event:
    """``failure`` as an exception that was read from a log."""
    if failure.error is not None:
        return _event(failure.error, failure.type, failure.message)
    return Event(_line(), failure.type, failure.message)


def _event(error: BaseException, name: str, message: str, depth: int = 0) -> Event:
    found = Event(_line(), name, message)
    for frame in traceback.extract_tb(error.__traceback__)[-60:]:
        found.frames.append((frame.filename, frame.lineno or 0, frame.name))
        found.trace.append(frame.line or "")
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and depth < 4:
        found.cause = _event(before, type(before).__name__, str(before), depth + 1)
    return found


def _line() -> Line:
    return Line(0, 0, 0, None, "", None, "", "", "")


def facts(run: Run | None, batch: Batch | None, failure: Failure) -> Facts:
    """What the guard knows of the run, as the catalogue's texts read it."""
    raised = event(failure)
    message = flat(f"{failure.type}: {failure.message}")
    known = Facts() if run is None else _of(run, batch)
    return known.at(message, flat(" ".join(raised.trace)), phases.of(raised))


def _of(run: Run, batch: Batch | None) -> Facts:
    used = run.checkpointing
    tower = run.tower("vision")
    return Facts(
        framework=run.framework,
        releases=run.releases,
        strategy=run.strategy,
        world=run.world,
        micro=len(batch.samples) or None if batch else None,
        accumulation=run.accumulation,
        use_reentrant=used.use_reentrant if used.on else None,
        find_unused=run.find_unused,
        static_graph=run.static_graph,
        checkpointing=used.on,
        tuning=run.tuning,
        freeze_tower=None if tower is None else not tower.trainable,
        kinds=batch.kinds if batch else (),
        run=run,
    )
