"""The silent errors that are put into runs: which kind of the thirty-five each is of, what the
ledger should say, and the run that it is put into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

KINDS: dict[int, str] = {
    1: "accumulated loss not divided by its tokens",
    2: "mean of the ranks' means, uneven target counts",
    3: "forward past the DDP wrapper",
    4: "one rank's weights changed",
    5: "adapters drift apart (a module used twice, reentrant checkpointing)",
    6: "ZeRO-2, bf16, a module used twice",
    7: "ZeRO skips the optimizer's step without a word",
    8: "loss scale divided twice, gradients not cleared",
    9: "negative clip coefficient",
    10: "ZeRO-3 applies an earlier step's gradient",
    11: "the optimizer was made before the model was wrapped or replaced",
    12: "a tower is not in the optimizer, or not at its own learning rate",
    13: "a tower runs under no_grad",
    14: "the last layer of the tower is never trained",
    15: "a freeze flag misses a tensor",
    16: "bf16 weights and a small learning rate: updates round to nothing",
    17: "targets on image placeholders",
    18: "labels shifted twice, or not at all",
    19: "the end of a sequence is never a target",
    20: "two begins of a sequence",
    21: "no target in a row, or everything is one",
    22: "truncation cuts the targets",
    23: "packed without boundaries",
    24: "mRoPE positions wrong under packing",
    25: "images in another order than the text",
    26: "pixels not normalised, constant, or all equal",
    27: "token types or a bidirectional mask wrong",
    28: "the same rows on all ranks",
    29: "a resume learns the same rows again",
    30: "a tied head is untied",
    31: "the scheduler steps once a rank",
    32: "workers share numpy's seed",
    33: "left in eval()",
    34: "a fused loss with a wrong gradient",
    35: "hardware",
}
NOT_BY_BOOKS = {
    24: "the positions are inputs of a forward that is right for them",
    25: "the step would have to be computed again",
    27: "they are inputs of a forward that is right for them",
    32: "rows are compared between ranks, not between workers",
    34: "the step would have to be computed again, on a GPU",
    35: "the step would have to be computed again, on other hardware",
}
"""Kind → why no ledger of one run can tell it."""
SHOWN_IS_ENOUGH = (12, 14, 15, 21, 23, 31, 33)
"""They count as told if the line, a note or the page shows them."""
BY_STEP = 3


@dataclass(frozen=True)
class Injection:
    """Attributes:
    name: of the function.
    kind: of `KINDS`; 0 for a real error beside them.
    codes: any of them tells it; none: it has only to be shown.
    prepare: makes the healthy run, and puts the error in where ``run.faulty``.
    seen: where the report shows it, for kinds of which that is enough.
    stages: processes one after the other; the last one is judged.
    """

    name: str
    kind: int
    codes: tuple[str, ...]
    prepare: Callable[[Any], None]
    world: int = 1
    stages: int = 1
    seen: str = ""

    @property
    def title(self) -> str:
        """In words."""
        return (self.prepare.__doc__ or "").strip().partition("\n")[0].rstrip(".")


INJECTIONS: dict[str, Injection] = {}


def injection(kind: int, *codes: str, **more: Any) -> Callable[[Any], Any]:
    """Register a function that prepares a run."""

    def registered(prepare: Callable[[Any], None]) -> Callable[[Any], None]:
        name = prepare.__name__
        INJECTIONS[name] = Injection(name, kind, codes, prepare, **more)
        return prepare

    return registered


def load() -> dict[str, Injection]:
    """All of them; imports torch."""
    from tools.ledger import injections, injections_gradients, injections_weights  # noqa: F401

    return INJECTIONS
