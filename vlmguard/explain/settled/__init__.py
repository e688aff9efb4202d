"""Faults of libraries that their own threads settled, before a class's general steps.

A table for each part of the world; of several that fit the first one speaks. A release that a step
names was looked up: in the wheels or tags on both sides of it, or in the thread that found it (most
of models.py, bitsandbytes built for CUDA 12.5, datasets' packed scripts, vLLM 0.9.1, DeepSpeed
0.9.3's hybrid engine and peft 0.2's adapters have a thread alone).
"""

from __future__ import annotations

from vlmguard.explain.logfacts import Facts
from vlmguard.explain.settled import (
    batches,
    builds,
    factory,
    fsdp,
    images,
    loading,
    memory,
    models,
    processors,
    releases,
    rollouts,
    scripts,
    sharded,
    trainer,
)
from vlmguard.explain.settled.fault import Settled

TABLE: tuple[Settled, ...] = (
    *memory.TABLE,
    *sharded.TABLE,
    *fsdp.TABLE,
    *trainer.TABLE,
    *images.TABLE,
    *factory.TABLE,
    *scripts.TABLE,
    *processors.TABLE,
    *batches.TABLE,
    *loading.TABLE,
    *rollouts.TABLE,
    *models.TABLE,
    *builds.TABLE,
    *releases.TABLE,
)


def of(facts: Facts) -> Settled | None:
    """The fault that these words and this traceback are, if one of them is."""
    said, trace = facts.message, facts.trace
    found = (one for one in TABLE if said and one.fits(said, trace, facts.releases))
    return next(found, None)
