"""What one rank sees in one micro-step: text, perhaps images, perhaps a dummy image times zero.

image_then_text is a step with images, one without and one with images again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.lab.cases import Case

WORLD = 2


@dataclass(frozen=True)
class Kind:
    """images: "real", "dummy" or "none"; seed: of the data.

    embedded: words and images become hidden states before the model is called. A framework with
    dummy images does so on every rank: ZeRO-3 compares the order in which ranks call modules.
    """

    images: str
    seed: int
    embedded: bool


def steps(case: Case) -> int:
    """Optimizer steps: DDP tells of an unfinished reduction at the next forward only, and a stale
    gradient is applied at the second step."""
    return 3 if case.batch == "image_then_text" else 2


def kind(case: Case, rank: int, step: int, micro: int, seed: int) -> Kind:
    """What ``rank`` sees; the same for every strategy and checkpoint variant."""
    images = "real"
    if case.batch == "text" or (case.batch == "image_then_text" and step == 1):
        images = "none"
    elif case.batch.startswith("differ") and rank:
        images = "dummy" if case.batch == "differ_dummy" else "none"
    data = 1000 * seed + 100 * step + 10 * micro + rank
    return Kind(images, data, case.batch == "differ_dummy")
