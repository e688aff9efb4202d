"""Which towers ms-swift's template runs in a row of text, tried on a small copy of the model.

A template may have a dummy for one kind of input and none for another: Qwen2.5-Omni's runs the
vision tower always, and the audio tower under DeepSpeed, but not under ZeRO-3. Its source says
"dummy"; what it does is seen where its processor can run.
"""

from __future__ import annotations

from typing import Any

import torch

from vlmguard_torch.layout import towers
from vlmguard_torch.layout.towers import without_adapters
from vlmguard_torch.observe import measure, row_trace
from vlmguard_torch.observe.isolated_state import isolated_state, unpartitioned
from vlmguard_torch.observe.reached import kept
from vlmguard_torch.observe.shrink import shrink

SEES = ("vision", "audio")
IDS = range(5, 13)
"""Of a row of text: words in any vocabulary."""


def several(model: Any) -> bool:
    """Whether the model has towers of more than one kind: only then does one dummy say too little
    of the others."""
    found = towers.seeing(without_adapters(model))
    return all(found.get(kind) for kind in SEES)


def left_idle(template: Any, model: Any) -> frozenset[str]:
    """Kinds of towers that it does not run. Raises as `runs` does, and ValueError where it runs
    none, though its source says that it does."""
    ran = runs(template, model)
    if not ran:
        raise ValueError("it ran no tower")
    return frozenset(SEES) - ran


def runs(template: Any, model: Any) -> frozenset[str]:
    """Kinds of towers that ``template._post_encode`` runs for a row of text, as this process is
    set up (DeepSpeed, and its stage). The user's model, template and random numbers stay as they
    are.

    Raises whatever making the copy, the template or its processor raises.
    """
    base = without_adapters(model)
    with isolated_state(), kept(base):
        with unpartitioned():
            limit = row_trace.Limit.of(measure.SECONDS, measure.WAIT)
            config = shrink(base.config, inputs=False).config  # its processor makes the inputs
            copy = measure.tiny(type(base), config, limit)
        called: set[str] = set()
        for kind in SEES:
            for path in towers.seeing(copy).get(kind, ()):
                seen = _Seen(called, kind)
                copy.get_submodule(path).register_forward_pre_hook(seen)
        ids = torch.tensor([list(IDS)])
        template._post_encode(copy, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    return frozenset(called)


class _Seen:
    """A hook that notes the kind of the tower that was called."""

    def __init__(self, called: set[str], kind: str) -> None:
        self.called, self.kind = called, kind

    def __call__(self, *_: Any) -> None:
        self.called.add(self.kind)
