"""How much of a card's memory weights, gradients and optimizer take, by the model's own size.

Of mixed precision with Adam: 2 bytes a parameter for the weights, 2 for the gradients, 12 for the
optimizer's copy and states; ZeRO-2 shares the last two, ZeRO-3 all. Activations come on top.
"""

from __future__ import annotations

import re

from vlmguard.explain import already
from vlmguard.explain.logfacts import Facts

GIB = 1e9 / 2**30
ROOM = 0.7  # of a card for all that is no activation
FULL = 0.6  # beyond this it is the sharding that matters, no batch
# "Qwen2.5-VL-32B-Instruct", "llama-7b", "30B-A3B": all of its parameters, in billions.
_SIZE = re.compile(r"(?i)(?<![\dA-Za-z.])(\d{1,3}(?:\.\d{1,2})?)b(?![A-Za-z0-9])")


def parameters(facts: Facts) -> float | None:
    """Billions of parameters, where the model's name tells them."""
    names = (facts.model, facts.said.get("model_name", ""), facts.said.get("loaded_model", ""))
    for name in names:
        sizes = [float(n) for n in _SIZE.findall(name.rstrip("/").rpartition("/")[2])]
        if sizes and 0.2 <= max(sizes) <= 700:
            return max(sizes)
    return None


def needed(
    billions: float, stage: int, ranks: int, offload: bool = False, adapters: bool = False
) -> float:
    """GiB a card: of a model that trains as a whole, or of frozen weights and their adapters."""
    if adapters:
        return 2 * billions * GIB / (ranks if stage == 3 else 1)
    weights, states = 2 * billions * GIB, 14 * billions * GIB
    if offload:  # what is on the card of ZeRO-3 is gathered layer by layer
        return weights / ranks if stage == 3 else weights + 2 * billions * GIB / ranks
    if stage == 3:
        return (weights + states) / ranks
    return weights + states / ranks if stage == 2 else weights + states


def suffices(facts: Facts, total: float | None, adapters: bool) -> tuple[str, str] | None:
    """The first stage that leaves room for activations and why the run's own does not; None where
    that is not told, or the run's own stage leaves enough."""
    size, ranks = parameters(facts), facts.world
    if size is None or total is None or not ranks or ranks < 2 or facts.fsdp or _in_part(facts):
        return None
    if facts.zero is None and not facts.framework:
        return None  # a loop of one's own
    offload = facts.said.get("offload") == "cpu"
    stage = facts.zero or 0
    now = needed(size, stage, ranks, offload, adapters)
    if now <= FULL * total:
        return None
    ways = (("zero2", 2, False), ("zero3", 3, False), ("zero3_offload", 3, True))
    left = [w for w in ways if w[1] >= stage and not (w[1] == stage and w[2] == offload)]
    sizes = [(way, needed(size, stage, ranks, cpu, adapters)) for way, stage, cpu in left]
    found = next(((way, then) for way, then in sizes if then <= ROOM * total), None)
    if found is None:
        return None
    what = "parameters" if adapters else "parameters that train as a whole"
    return found[0], (
        f"slower; {size:g} billion {what} take some {now:.0f} GiB of each card's {total:.0f} as it "
        f"is, before any activation, and {found[1]:.0f} so"
    )


def _in_part(facts: Facts) -> bool:
    """Whether less trains than all or adapters, or the weights are of fewer bits."""
    frozen = {"tune_mm_llm": "false", "freeze_language_model": "true"}
    part = any(facts.said.get(name, "").lower() == value for name, value in frozen.items())
    return part or facts.tuning.lower() == "freeze" or already.so("four_bits", facts)
