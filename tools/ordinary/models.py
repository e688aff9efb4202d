"""The model of a drawn run: a tiny one of a real class, tuned as drawn."""

from __future__ import annotations

import inspect
import random
from typing import Any

import peft
import torch

from tools.matrix import families
from tools.ordinary.draws import REENTRANT, Draw

_LANGUAGE = ("q_proj", "v_proj", "up_proj")
_SEEING = ("vision", "visual", "vit", "audio", "multi_modal", "connector", "merger", "resampler")


def make(draw: Draw) -> Any:
    """Weights from one seed, in training mode."""
    model = families.of(draw.model).model()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    if draw.has("dummy pixels"):
        _drops_pixels(model, families.of(draw.model))
    if draw.has("modality dropout"):
        _drops_at_random(model)
    if draw.tuning in ("frozen tower", "frozen llm"):
        freeze(model, sees=draw.tuning == "frozen tower")
    if draw.tuning.startswith("lora"):
        model = _adapted(model, draw.tuning)
    if draw.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": draw.has(REENTRANT)})
    if draw.checkpointing and draw.tuning.startswith("lora"):
        model.enable_input_require_grads()
    return model.train()


def is_tower(name: str) -> bool:
    """Whether a parameter or module of that name belongs to a tower or its projector."""
    return any(part in name for part in _SEEING)


def freeze(model: Any, sees: bool, train: bool = False) -> None:
    """Freeze, or train again, the towers or all that is no tower."""
    for name, parameter in model.named_parameters():
        if is_tower(name) == sees:
            parameter.requires_grad_(train)


def _adapted(model: Any, tuning: str) -> Any:
    torch.manual_seed(5)
    linear = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)]
    names = [n for n in linear if "lm_head" not in n and (tuning == "lora" or _language(n))]
    told = peft.LoraConfig(r=4, init_lora_weights=False, target_modules=names)
    return peft.get_peft_model(model, told)


def _language(name: str) -> bool:
    return name.endswith(_LANGUAGE) and not is_tower(name)


def _drops_pixels(model: Any, family: Any) -> None:
    """A class of the user's own: its forward takes no notice of pixels that no token asks for."""
    token, keys = family.one[0].token, tuple(family.one[0].make(torch.Generator()))
    kind = type(model)

    class Own(kind):  # type: ignore[misc, valid-type]
        def forward(self, input_ids=None, **inputs):  # type: ignore[no-untyped-def]
            if not (input_ids == token).any():
                inputs = {key: value for key, value in inputs.items() if key not in keys}
            else:
                inputs = _of_real(input_ids, inputs, keys, family)
            return super().forward(input_ids=input_ids, **inputs)

    Own.forward.__signature__ = inspect.signature(kind.forward)
    Own.__name__, Own.__qualname__ = kind.__name__, kind.__qualname__
    model.__class__ = Own


def _of_real(ids: Any, inputs: Any, keys: tuple[str, ...], family: Any) -> dict[str, Any]:
    """Without the pixels of those rows of a batch that have no placeholder."""
    there = [bool((one == family.one[0].token).any()) for one in ids]
    kept = dict(inputs)
    for key in keys:
        if kept.get(key) is not None:
            parts = kept[key].chunk(len(there))
            kept[key] = torch.cat([part for part, real in zip(parts, there, strict=True) if real])
    return kept


def _drops_at_random(model: Any) -> None:
    """Modality dropout as scripts have it: a forward of the instance's own, with a closure that
    counts its calls and now and then takes the pixels away."""
    chance, whole, calls = random.Random(3), model.forward, [0]

    def forward(*args, **inputs):  # type: ignore[no-untyped-def]
        calls[0] += 1
        if chance.random() < 0.3:
            inputs = {k: v for k, v in inputs.items() if "pixel" not in k and "grid" not in k}
        return whole(*args, **inputs)

    forward.__signature__ = inspect.signature(whole)
    model.forward = forward
