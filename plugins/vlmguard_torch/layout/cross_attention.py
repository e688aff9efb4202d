"""Models that read an image through cross-attention layers of their language model (Mllama).

A row without an image skips those layers. They are partitioned and reduced like any others, so
they run on the blank input too, and what they return is thrown away: their output is their input,
bit for bit, and their weights get a gradient of zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from vlmguard_torch import zero_contribution
from vlmguard_torch.module_calls import Did, sure

_MARK = "_vlmguard_blank"
_STATES = "cross_attention_states"


def is_crossing(module: Any) -> bool:
    """Whether ``module`` hands an image to its language model's cross-attention layers."""
    return hasattr(module, "vision_model") and bool(_stack(module))


def _stack(module: Any) -> str:
    """The path of the module that holds the layers; before transformers 4.52 a head is around
    it."""
    inner = getattr(module, "language_model", None)
    if hasattr(inner, "cross_attention_layers"):
        return "language_model"
    headless = hasattr(getattr(inner, "model", None), "cross_attention_layers")
    return "language_model.model" if headless else ""


def layers(owner: Any) -> tuple[str, ...]:
    """The paths of its cross-attention layers; () for any other model."""
    if not is_crossing(owner):
        return ()
    stack = _stack(owner)
    numbers = owner.get_submodule(stack).cross_attention_layers
    return tuple(f"{stack}.layers.{at}" for at in numbers)


def blank(config: Any) -> dict[str, torch.Tensor]:
    """One image in one tile."""
    vision = config.vision_config
    side, tiles = vision.image_size, vision.max_num_tiles
    pixels = torch.full((1, 1, tiles, vision.num_channels, side, side), -1.0)
    mask = torch.zeros(1, 1, tiles, dtype=torch.long)
    mask[..., 0] = 1
    ratio = torch.ones(1, 1, dtype=torch.long)
    return {"pixel_values": pixels, "aspect_ratio_ids": ratio, "aspect_ratio_mask": mask}


def states(owner: Any, **image: torch.Tensor) -> torch.Tensor:
    """What `MllamaModel.forward` makes of an image: (tiles, patches, hidden size)."""
    seen = owner.vision_model(**image).last_hidden_state
    found = owner.multi_modal_projector(seen)
    return found.reshape(-1, seen.shape[-2], found.shape[-1])  # type: ignore[no-any-return]


def tokens(kwargs: dict[str, Any]) -> torch.Tensor | None:
    """The language model's input, one row a sample."""
    return next(
        (kwargs[k] for k in ("input_ids", "inputs_embeds") if kwargs.get(k) is not None), None
    )


def given(kwargs: dict[str, Any]) -> bool:
    """Whether this call of the language model has an image."""
    return kwargs.get(_STATES) is not None


def give(kwargs: dict[str, Any], found: torch.Tensor, rows: int) -> dict[str, Any]:
    """The same call with a blank image for each of its ``rows``; its tiles are rows of their own,
    which the layer puts together: (rows · tiles, patches, hidden size)."""
    return {**kwargs, _STATES: found.repeat(rows, 1, 1)}


class ThrowAway:
    """The hooks on a cross-attention layer; ``now`` says whether this forward's image is blank, and
    ``thrown`` gets such a layer's input, its own output, and the one that takes its place.

    What arrives is marked, in front of all other hooks: a recomputation makes the same call again,
    and FSDP hands a copy to the layer itself. So is the cache, which keeps what the layer saw. The
    mark is on the memory: reentrant checkpointing recomputes from tensors that share it.
    """

    def __init__(
        self,
        now: Callable[[], bool],
        thrown: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None],
    ) -> None:
        self.now, self.thrown = now, thrown
        self._blanks: set[StorageWeakRef] = set()

    def before(self, layer: Any, args: Any, kwargs: dict[str, Any]) -> Did:
        """Mark, or read the mark."""
        states, cache = kwargs.get(_STATES), kwargs.get("past_key_values")
        if states is None and len(args) > 1:  # checkpointed, before transformers 4.52
            states = args[1]
        if states is None:
            blank = getattr(cache, _MARK, False)
        else:
            memory = StorageWeakRef(states.untyped_storage())
            if sure(self.now()):
                self._blanks = {each for each in self._blanks if not each.expired()} | {memory}
            blank = memory in self._blanks
        if blank and cache is not None:
            setattr(cache, _MARK, True)
        layer.__dict__[_MARK] = blank
        return Did()

    def after(self, layer: Any, args: Any, kwargs: dict[str, Any], output: Any) -> Did:
        """The layer's input for its output, if the image was blank."""
        if not layer.__dict__.pop(_MARK, False):
            return Did()
        hidden = args[0] if args else kwargs["hidden_states"]
        several = isinstance(output, tuple)
        made = list(zero_contribution.tensors(output[:1])) if several else [output]
        out = zero_contribution.add(hidden, made)
        self.thrown(hidden, made[0], out)
        return Did((out, *output[1:]) if several else out)
