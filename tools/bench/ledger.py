"""What the ledger costs in a step that it watches, and in one that it does not.

A real Trainer in one process, every fifth step watched. A window is begun at the end of the step
before it and judged in the step behind it: what these two take more counts as the watched one's.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

from tools.bench import measure

EVERY = 5
WARM = 2 * EVERY
"""Steps before any is counted."""
SIZES = {"long": "rows of 2,048 tokens", "small": "rows of 192 tokens"}


def ledger(quick: bool) -> dict[str, Any]:
    """Rows for two lengths of rows, in fp32 and with bf16 weights."""
    import torch

    torch.set_num_threads(1)
    sizes = ("tiny",) if quick else tuple(SIZES)
    rows = []
    for size in sizes:
        for dtype in (torch.float32, torch.bfloat16):
            spent, inside = _trained(size, dtype, measure.number(quick, 2, 15))
            name = f"{SIZES.get(size, size)}, {str(dtype).removeprefix('torch.')} weights"
            bars = (1.05, 1.002) if size == "long" else (None, None)
            rows += [
                _watched(f"a watched step of {name}, beside others", spent, bars[0]),
                _others(
                    f"the others, {name}, by the time inside the ledger", spent, inside, bars[1]
                ),
            ]
    return {"rows": [row.data() for row in rows]}


def _trained(size: str, dtype: Any, number: int) -> tuple[list[measure.Spent], list[float]]:
    """What each step took, and the seconds of it inside the ledger."""
    import toggled
    import transformers

    os.environ["VLMGUARD_LEDGER"] = str(EVERY)
    spent: list[measure.Spent] = []
    inside, sums = [0.0], []

    class Clock(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            inside[0] = 0.0
            self.begun = time.process_time(), time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            cpu, wall = (time.process_time() - self.begun[0], time.perf_counter() - self.begun[1])
            spent.append(measure.Spent(cpu, wall))
            sums.append(inside[0])

    made = toggled.trainer(size, "cpu", dtype, WARM + EVERY * number + 2, Clock())
    from vlmguard_torch.ledger.watcher import Watcher

    before = {name: getattr(Watcher, name) for name in ("forward", "before", "after")}
    for name, method in before.items():
        setattr(Watcher, name, _timed(method, inside))
    try:
        made.train()
    finally:
        for name, method in before.items():
            setattr(Watcher, name, method)
        os.environ.pop("VLMGUARD_LEDGER")
    return spent, sums


def _timed(method: Any, inside: list[float]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(*args, **kwargs)
        finally:
            inside[0] += time.perf_counter() - start

    return call


def _watched(what: str, spent: Sequence[measure.Spent], bar: float | None) -> measure.Row:
    pairs = []
    for at in range(WARM, len(spent) - 2, EVERY):
        about, quiet = spent[at - 1 : at + 2], (spent[at - 2], spent[at + 2])
        cpu, wall = [statistics.mean(getattr(each, by) for each in quiet) for by in ("cpu", "wall")]
        watched = measure.Spent(sum(each.cpu for each in about) - 2 * cpu,
                                sum(each.wall for each in about) - 2 * wall)  # fmt: skip
        pairs.append((watched, measure.Spent(cpu, wall)))
    return measure.ratio(what, pairs, bar)


def _others(
    what: str, spent: Sequence[measure.Spent], inside: Sequence[float], bar: float | None
) -> measure.Row:
    at = [n for n in range(WARM, len(spent)) if n % EVERY in (2, 3)]
    found = [1 + inside[n] / statistics.median(each.wall for each in spent) for n in at]
    return measure.Row(what, "×", measure.median(found), len(found), None, bar)
