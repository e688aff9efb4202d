"""Whether ms-swift itself runs the tower on a dummy image in a batch without one.

Read from the code that will run: the template's ``_post_encode`` and what it delegates to, and a
``forward`` that ms-swift put on the model. A dummy is made always through
``_get_inputs_embeds_hf`` (from 3.8), or where DeepSpeed is asked for.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from vlmguard.core.facts import Certainty, Strategy
from vlmguard_torch.layout.towers import without_adapters

_PLAIN = "Template._post_encode"
_ALWAYS, _UNDER_DEEPSPEED = "_get_inputs_embeds_hf", "is_deepspeed_enabled()"
_MAKES = re.compile(r"dummy|Image\.new|torch\.(zeros|empty|ones|rand)|pixel_values is None")
"""Words without which no code makes a picture of its own."""
_LEAVES = re.compile(r"^(?:(?!inputs_embeds).)*$", re.DOTALL)
"""A method that makes no embeddings leaves that to the model."""
_DELEGATES = re.compile(r"(\w+|super\([^)]*\))\._post_encode\(")


def pads(trainer: Any, strategy: Strategy) -> Certainty:
    """ "yes", "no", or "possible" for code that cannot be read or does what we do not know."""
    deepspeed = strategy.startswith("zero")
    kind = type(trainer.template)
    if getattr(kind._post_encode, "__qualname__", "") == _PLAIN:
        # The model makes the embeddings.
        return "yes" if deepspeed and _patched(trainer) else "no"
    sources = list(_sources(kind))
    if any(_ALWAYS in source for source in sources):
        return "yes"
    if any(_UNDER_DEEPSPEED in source for source in sources):
        return "yes" if deepspeed else "no"
    if deepspeed and _patched(trainer):
        return "yes"
    unread = not all(sources)
    return "possible" if unread or any(_MAKES.search(source) for source in sources) else "no"


def encodes(trainer: Any) -> bool:
    """Whether the template runs the towers itself, before the model's forward: then the model alone
    does not say how often they run."""
    kind = type(trainer.template)
    if getattr(kind._post_encode, "__qualname__", "") == _PLAIN:
        return False
    return not all(_LEAVES.search(source) for source in _sources(kind))


def _patched(trainer: Any) -> bool:
    """Whether a forward that ms-swift put on the model asks for DeepSpeed."""
    base = without_adapters(trainer.accelerator.unwrap_model(trainer.model))
    for module in (base, getattr(base, "model", None), getattr(base, "thinker", None)):
        forward = vars(module).get("forward") if module is not None else None
        forward = getattr(forward, "__func__", forward)
        if forward is not None and _UNDER_DEEPSPEED.removesuffix("()") in _source(forward):
            return True
    return False


def _sources(kind: type, depth: int = 3) -> Iterator[str]:
    """The source of a template's ``_post_encode``, and of those that it calls."""
    function = kind._post_encode  # type: ignore[attr-defined]
    source = _source(function)
    yield source
    if not depth:
        return
    for name in _DELEGATES.findall(source):
        for other in _called(kind, function, name):
            yield from _sources(other, depth - 1)


def _called(kind: type, function: Any, name: str) -> Iterator[type]:
    """The classes whose ``_post_encode`` a call names."""
    if not name.startswith("super"):
        found = getattr(function, "__globals__", {}).get(name)
        if isinstance(found, type) and found is not kind and hasattr(found, "_post_encode"):
            yield found
        return
    owner = next((c for c in kind.__mro__ if "_post_encode" in vars(c)), kind)
    above = kind.__mro__[kind.__mro__.index(owner) + 1 :]
    yield from (c for c in above if "_post_encode" in vars(c))


def _source(function: Any) -> str:
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):
        return ""
