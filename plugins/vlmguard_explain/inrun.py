"""The catalogue asked from inside a run: an exception instead of a log, the guard's own facts."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from vlmguard_explain.advice import steps
from vlmguard_explain.lines.lines import Line
from vlmguard_explain.match import classify
from vlmguard_explain.match.catalogue import Known, by_code
from vlmguard_explain.run.logfacts import Facts
from vlmguard_explain.tracebacks.event import Event, flat

if TYPE_CHECKING:
    from vlmguard.core.facts import Batch, Failure, Run


def classified(failure: Failure) -> Known | None:
    """The catalogue's entry that ``failure`` is."""
    known = classify.classify(event(failure))
    bug = steps.case(facts(None, None, failure)) if known is not None else None
    return by_code()[bug.code] if bug is not None and bug.code else known


def event(failure: Failure) -> Event:
    """``failure`` as an exception that was read from a log."""
    return _event(failure.error, failure.type, failure.message)


def _event(error: BaseException | None, name: str, message: str, depth: int = 0) -> Event:
    found = Event(Line(0, 0, 0, None, "", None, "", "", ""), name, message)
    if error is None:
        return found
    for frame in traceback.extract_tb(error.__traceback__)[-60:]:
        found.frames.append((frame.filename, frame.lineno or 0, frame.name))
        place = f'File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        found.trace += [place, frame.line or ""]  # as a log has them
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and depth < 4:
        found.cause = _event(before, type(before).__name__, str(before), depth + 1)
    return found


def facts(run: Run | None, batch: Batch | None, failure: Failure) -> Facts:
    """What the guard knows of the run, as the catalogue's texts read it."""
    raised = event(failure)
    message = flat(f"{failure.type}: {failure.message}")
    known = Facts() if run is None else _of(run, batch)
    return known.at(message, flat(" ".join(raised.trace)), raised.phase)


def _of(run: Run, batch: Batch | None) -> Facts:
    used, tower = run.checkpointing, run.tower("vision")
    blind = bool(run.towers) and not any(tower.sees for tower in run.towers)
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
        seen=frozenset(("text model",)) if blind else frozenset(),  # such as a reranker
        said={"cutoff": " and ".join(run.cut_off)},
        run=run,
    )
