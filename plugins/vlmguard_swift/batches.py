"""ms-swift's rows, judged on the CPU: as they are fetched, and as they are collated."""

from __future__ import annotations

from typing import Any

from vlmguard import guard
from vlmguard.core import runstate, settings
from vlmguard.core.facts import Batch, Run, Sample
from vlmguard.runtime.faults import contain
from vlmguard_transformers.data import phases

Args = tuple[Any, ...]
Options = dict[str, Any]


def collate(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """Look at the rows, have them collated, and judge: what the collator makes of them is counted
    faster than their lists. Where it fails over a row, the row is named."""
    rows = args[0] if args else kwargs.get("batch")
    seen = contain("looking at a batch", _seen, instance, rows)
    try:
        collated = wrapped(*args, **kwargs)
    except Exception:
        contain("judging the batch", _judge, instance, seen, None)
        raise
    contain("judging the batch", _judge, instance, seen, collated)
    return collated


def _seen(template: Any, rows: Any) -> Any:
    from vlmguard_swift import encoded

    state = runstate.inherited(template, settings.get)
    if state is None or state.run is None:
        return None
    return encoded.Look(template, rows, state.run.samples)


def _judge(template: Any, seen: Any, collated: Any) -> None:
    state = runstate.inherited(template, settings.get)
    if seen is not None and state is not None and state.run is not None:
        # The prompts of GRPO go through a template in inference mode.
        samples = getattr(template, "is_training", True) is False
        phase = "generate" if samples else phases.of(state)
        guard.pre_step(state, batch=seen.batch(phase, collated))


def fetch(wrapped: Any, instance: Any, args: Args, kwargs: Options) -> Any:
    """ms-swift advances ``_idx`` exactly when it takes another sample than the one asked for."""
    before = contain("reading a data set", getattr, instance, "_idx", None)
    row = wrapped(*args, **kwargs)
    if before is not None:
        contain("noting a sample", _fetched, instance, before, args, row)
    return row


def _fetched(dataset: Any, before: int, args: Args, row: Any) -> None:
    from vlmguard_swift import row_origin

    if dataset._idx == before:
        if args and isinstance(args[0], int):
            row_origin.note(row, dataset.dataset, args[0])
        return
    template = getattr(getattr(dataset, "encode_func", None), "__self__", None)
    state = runstate.inherited(template, settings.get)
    about = state if state is not None and state.run is not None else Run("ms-swift")
    why = f"row {args[0] if args else '?'}; the first failures are logged above"
    guard.pre_step(about, batch=Batch((Sample(replaced=why),), phase=phases.of(state)))
