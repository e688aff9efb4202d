"""What each kind of row uses of a model, observed on a tiny copy of it.

    facts = observe(model)
    facts.unused("model.visual.blocks.0.norm1.weight", ["text", "image"])   # True, False or None

The copy is of the user's own class, from its own config, on the CPU, and leaves no trace. What
cannot be copied or run is answered as "may", with the reason; nothing here raises.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import torch

from vlmguard_torch.layout.parameters import Parameters
from vlmguard_torch.observe import observed_cache
from vlmguard_torch.observe.isolated_state import isolated_state, strategy
from vlmguard_torch.observe.observed import Observed, may, reason
from vlmguard_torch.observe.reached import kept

if TYPE_CHECKING:
    from vlmguard_torch.observe.blank_trial import Blank


def observe(
    model: Any,
    blank: Blank | None = None,
    cache: bool = True,
    media: tuple[str, ...] | None = None,
    reentrant: bool = False,
) -> Observed:
    """Observe a model, bare or under PEFT, DDP or torch.compile, on whatever device its weights
    are, partitioned or not: only its class, its config and its names are read.

    media: kinds of blank input to be tried; None: all that the model computes features of.
    reentrant: whether to see what reentrant checkpointing leaves without a gradient.

    The answer is the same in every process, but where one ran out of time; compare before acting
    on it together.
    """
    begun = time.monotonic()
    if os.environ.get("VLMGUARD_OBSERVE", "").strip().lower() in ("off", "0", "false", "no"):
        return may("switched off by VLMGUARD_OBSERVE")
    name = type(bare(model)).__qualname__
    try:
        with isolated_state(), kept(bare(model)):
            return _observe(bare(model), blank, cache, media, reentrant)
    except Exception as error:
        return may(reason(error), name, time.monotonic() - begun)


def bare(model: Any) -> Any:
    """The model without what was put around it."""
    for _ in range(5):
        inner = getattr(model, "_orig_mod", None)
        if inner is None and hasattr(model, "get_base_model"):
            inner = model.get_base_model()
        if inner is None and type(model).__module__.startswith("torch.nn.parallel"):
            inner = model.module
        if inner is None:
            return model
        model = inner
    return model


def _observe(
    model: Any,
    blank: Blank | None,
    cache: bool,
    media: tuple[str, ...] | None,
    reentrant: bool,
) -> Observed:
    part, model = subject(model)
    extra = [part, str((blank is not None, media, reentrant)), strategy()]
    named = Parameters(model)
    key = observed_cache.key(model, model.config, extra, named) if cache else ""
    known = observed_cache.load(key) if cache else None
    if known is not None:
        return known
    from vlmguard_torch.observe import measure

    facts = measure.cut_or_whole(model, part, blank, media, reentrant, named)
    reasons = (facts.reason, *(one.reason for one in (*facts.kinds, *facts.blanks)))
    over = any("TooLong" in one for one in reasons)
    if cache and not over:
        observed_cache.store(key, facts)
    return facts


def subject(model: Any) -> tuple[str, Any]:
    """The model that has a forward, and its path: of Qwen-Omni's several, the one that is trained.

    Raises TypeError for what has neither forward nor config.
    """
    for path, part in (("", model), *model.named_children()):
        if hasattr(part, "config") and type(part).forward is not torch.nn.Module.forward:
            return path, part
    raise TypeError(f"{type(model).__qualname__} has no config to copy it from")
