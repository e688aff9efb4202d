"""The variant of checkpointing, where the framework lets it be chosen."""

from __future__ import annotations

from vlmguard.explain import swift
from vlmguard.explain.failure import Do
from vlmguard.explain.logfacts import Facts


def non_reentrant(facts: Facts, cost: str = "none: the same numbers") -> Do:
    """ms-swift 2 sets use_reentrant itself, by torch's release and the model, and refuses the
    argument (2.0.5, 2.3.0, 2.4.2 and 2.6.1): checkpointing can be left out there."""
    if facts.framework == "ms-swift" and swift.release(facts) == "2":
        return Do("no_checkpointing", "more memory for activations")
    return Do("non_reentrant", cost)
