"""Commands of ms-swift that no test names: a draw over model class, what trains, rows and strategy.

A *cell* is a model, what trains and rows; each is run under every strategy, so that all of a cell
share one reference. `cells` puts a different model at each place, and twice as many cells whose
rows have media here and none there as others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.frameworks.swift.classes import (
    DPO,
    FULL,
    LORA,
    PLAIN,
    SAME,
    SFT,
    TRAINED,
    Run,
    zero,
)
from tests.kit.models.families import FAMILIES

SEED = 11
TUNINGS = {"trained": TRAINED, "frozen": FULL, "lora": LORA}
UNLIKE, ALIKE = ("phases", "mixed", "crossed", "dpo_mixed"), ("image", "text", "dpo", "several")
STRATEGIES = {"zero3": zero(3), "ddp": [], "zero2": zero(2)}
FORCED = {"phases": "mixed", "crossed": "mixed"}
"""Rows of the same kinds on which ranks differ at every step: what a rehearsal forces."""
OTHERS = ("qwen3", "qwen2_5_vl_deep")
"""Families that `odd` alone asks for."""
Cell = tuple[str, str, str]


def cells() -> Iterator[Cell]:
    """(model, tuning, rows), each once."""
    pick = random.Random(SEED)
    unlike, alike = (
        [(tuning, rows) for tuning in TUNINGS for rows in group] for group in (UNLIKE, ALIKE)
    )
    left = {model: (pick.sample(unlike, len(unlike)), pick.sample(alike, len(alike)))
            for model in FAMILIES if model not in OTHERS}  # fmt: skip
    number = 0
    while any(any(both) for both in left.values()):
        for model in pick.sample(sorted(left), len(left)):
            both = left[model]
            first = both[number % 3 == 2] or both[number % 3 != 2]
            number += 1
            if first:
                yield model, *first.pop()


def runs() -> Iterator[Run]:
    """The commands, a cell after the other."""
    for model, tuning, rows in cells():
        for how, strategy in STRATEGIES.items():
            flags = [*TUNINGS[tuning], *strategy]
            reference = [*TUNINGS[tuning], *PLAIN]
            if rows == "crossed":
                flags, reference = ([*each, "--gradient_accumulation_steps", "2"]
                                    for each in (flags, reference))  # fmt: skip
            yield Run(
                f"drawn-{model}-{how}-{tuning}-{rows}", DPO if rows.startswith("dpo") else SFT,
                model, rows, flags, "", "", reference, extra=SAME if tuning == "lora" else {},
            )  # fmt: skip
