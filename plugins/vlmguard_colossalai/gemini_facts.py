"""What only ColossalAI's rules read, added to the core's facts. No torch here: rules load early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vlmguard.core.facts import Batch, Gradients


@dataclass(frozen=True)
class Step(Batch):
    """A collated batch.

    Attributes:
        lacks: visual entries that the trainable towers would run on, if the batch has none.
        why_not: why it cannot be completed in the data; "" if it can.
        reorders: whether leaving the towers out changes the order in which this rank gathers
            Gemini's chunks, even where no tower trains.
        used: whether an earlier batch of this accumulation window ran the trainable towers, and no
            chunk mixes them with the rest: then each backward has to run them.
        known: whether a batch without those entries is known to leave the towers unused. A model
            that nothing is known of may run them all the same, or take images by another name.
    """

    lacks: tuple[str, ...] = ()
    why_not: str = ""
    reorders: bool = False
    used: bool = False
    known: bool = True


@dataclass(frozen=True)
class Forward(Gradients):
    """What is known around a forward: no gradient yet, so the inherited part is empty.

    Attributes:
        untouched: tower kind → trainable parameters that no operation of this window used.
        overwritten: whether gradients lie where this forward would look for weights.
    """

    untouched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    overwritten: bool = False
