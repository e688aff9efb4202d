"""Groups of answers (GRPO) that the rows of a step do not hold: which numbers fit, by the log's."""

from __future__ import annotations

import re

from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts

USUAL = 8  # num_generations of TRL and ms-swift, where nobody sets it
MOST = 64  # times as many rows: more is no advice
# TRL's check: ranks × micro-batch (0.14 to 0.17), rows of a generation batch since.
_TOLD = re.compile(
    r"train batch size \((\d{1,5}) x (\d{1,5})\) must be evenly divisible by the number of "
    r"generations per prompt \((\d{1,4})\)"
)
_ROWS = re.compile(
    r"generation_batch_size \((\d{1,6})\) must be divisible by num_generations \((\d{1,4})\)"
)
_NONE = "range() arg 3 must not be zero"  # the sampler's: not one whole group in a step
_COST = "other groups of answers"


def steps(facts: Facts) -> tuple[Do, ...]:
    """The numbers that fit, nothing for another failure."""
    said, micro, gradual = facts.message, facts.micro, facts.accumulation
    if match := _TOLD.search(said):
        ranks, micro, wanted = int(match[1]), int(match[2]), int(match[3])
        words = f"{ranks} ranks × micro-batch {micro} = {ranks * micro}"
        more = _times(ranks, micro, wanted)
        raised = _raised("per_device_train_batch_size", more, words, wanted)
        return (*_lower(ranks * micro, wanted, words), *raised)
    if _NONE not in said and not _ROWS.search(said):
        return ()
    told = _ROWS.search(said)
    wanted = int(told[2]) if told else facts.few("num_generations") or USUAL
    if None in (facts.world, micro, gradual):
        return (_ANY,)
    ranks, micro, gradual = facts.world or 1, micro or 1, gradual or 1
    rows = ranks * micro * gradual
    words = f"{ranks} rank{'s' if ranks > 1 else ''} × micro-batch {micro} × accumulation {gradual}"
    words += f" = {rows}"
    more = _times(ranks * micro, gradual, wanted)
    raised = _raised("gradient_accumulation_steps", more, words, wanted)
    return (*raised, *_lower(rows, wanted, words))


def _times(each: int, now: int, wanted: int) -> int:
    """The smallest number from ``now`` on of which the rows hold whole groups; 0: none."""
    fits = (n for n in range(now, now * MOST + wanted) if each * n % wanted == 0)
    return next(fits, 0)


def _raised(name: str, value: int, words: str, wanted: int) -> tuple[Do, ...]:
    if not value:
        return ()
    said = f"--{name} {value}: {words} rows a step, of which groups of {wanted} answers "
    return (Do(f"{said}(num_generations) cannot be made", "slower steps: more rows each"),)


def _lower(rows: int, wanted: int, words: str) -> tuple[Do, ...]:
    less = next((n for n in range(min(rows, wanted), 1, -1) if rows % n == 0), 0)
    if not less:
        return ()
    return (Do(f"--num_generations {less}: {words} rows a step must divide by it", _COST),)


_ANY = Do(
    "--gradient_accumulation_steps 8 (as many times yours as it takes): ranks × micro-batch × "
    "accumulation must be a multiple of num_generations (8 by default), and is smaller; or "
    "--num_generations 2",
    "slower steps: more rows each",
)
