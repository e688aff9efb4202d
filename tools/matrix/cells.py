"""The cells of the matrix: a model class, a strategy, what is trained, and which rows come when.

`cells()` covers every pair of values first (its first `pairs()` cells), then every class with every
strategy and tuning. The order is drawn with a seed, and is the same on every machine.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from dataclasses import astuple, dataclass

CLASSES = (
    "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "internvl", "llava", "llava_next",
    "llava_onevision", "gemma3", "paligemma", "idefics3", "mllama", "glm4v", "minicpmv4_6",
    "mistral3", "qwen2_audio",
)  # fmt: skip
STRATEGIES = ("ddp", "fsdp2", "zero2", "zero3", "gemini")
TUNINGS = ("trained", "lora")
"""trained: every parameter; lora: LoRA on the language model, all else frozen."""
ORDERS = ("differ", "phases", "both", "accumulated", "between")
"""See `rows.PLANS`."""
NOT_ON_GEMINI = frozenset({"qwen3_vl", "qwen3_5", "internvl", "glm4v", "minicpmv4_6"})
"""Classes that transformers 4.51.3, the newest that ColossalAI runs with, does not have."""
SEED = 20


@dataclass(frozen=True, order=True)
class Cell:
    """One run, made with the guard off and on."""

    model: str
    strategy: str
    tuning: str
    order: str

    @property
    def key(self) -> str:
        """For example ``llava/zero3/lora/differ``."""
        return "/".join(astuple(self))

    @property
    def reference(self) -> tuple[str, ...]:
        """What the run in one process depends on: Gemini's has weights of another release."""
        where = "gemini" if self.strategy == "gemini" else "trainer"
        return where, self.model, self.tuning, self.order

    @classmethod
    def parse(cls, key: str) -> Cell:
        return cls(*key.split("/"))


def possible(cell: Cell) -> bool:
    """Whether the class is there beside the strategy."""
    return cell.strategy != "gemini" or cell.model not in NOT_ON_GEMINI


def every() -> Iterator[Cell]:
    """All cells that can be."""
    for values in itertools.product(CLASSES, STRATEGIES, TUNINGS, ORDERS):
        if possible(cell := Cell(*values)):
            yield cell


def wanted(cell: Cell) -> frozenset[tuple[object, ...]]:
    """The pairs of values that a cell covers."""
    return frozenset(itertools.combinations(enumerate(astuple(cell)), 2))


def _first(cell: Cell) -> tuple[str, str, str]:
    return cell.model, cell.strategy, cell.tuning


def cells(seed: int = SEED) -> list[Cell]:
    """The cells in the order in which they are run."""
    return list(drawn(seed))


@functools.cache
def drawn(seed: int) -> tuple[Cell, ...]:
    """Greedy: each next cell covers the most pairs that are still open; then, until every class
    was with every strategy and tuning, the one with the fewest cells like it."""
    left = list(every())
    random.Random(seed).shuffle(left)
    covers = {cell: wanted(cell) for cell in left}
    pairs = set().union(*covers.values())
    triples = {_first(cell) for cell in left}
    often: dict[object, int] = {}
    chosen: list[Cell] = []
    while pairs or triples:
        open_ = [c for c in left if pairs or _first(c) in triples]
        best = max(
            open_,
            key=lambda c: (len(covers[c] & pairs), -sum(often.get(p, 0) for p in covers[c])),
        )
        left.remove(best)
        chosen.append(best)
        pairs -= covers[best]
        triples.discard(_first(best))
        for pair in covers[best]:
            often[pair] = often.get(pair, 0) + 1
    return tuple(chosen)


def pairs(seed: int = SEED) -> int:
    """How many of the first cells cover every pair."""
    left = set().union(*map(wanted, every()))
    for number, cell in enumerate(cells(seed), start=1):
        left -= wanted(cell)
        if not left:
            return number
    raise AssertionError("a pair is left")
