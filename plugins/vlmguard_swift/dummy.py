"""Run the towers on a blank image in a forward that has none, without changing a bit of it.

ms-swift's own way for its families: the mean of the image's features, times zero, is added to the
token embeddings. Every rank then runs the same modules and every tower parameter gets a gradient of
zero. An image in the data would be right too, but round otherwise: its row would be longer.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from vlmguard_swift import encoded
from vlmguard_transformers.trainer import without_adapters

_OWN = "Template._post_encode"
_SIDE = 28  # pixels; the processor resizes it to what the model wants
_built: dict[tuple[int, torch.device], dict[str, torch.Tensor]] = {}


def possible(trainer: Any) -> bool:
    """Whether this template leaves embedding to the model, and the model shows its features."""
    base = without_adapters(trainer.accelerator.unwrap_model(trainer.model))
    own = type(trainer.template)._post_encode
    return getattr(own, "__qualname__", "") == _OWN and hasattr(base, "get_image_features")


def forward(template: Any, model: Any, inputs: Any) -> dict[str, Any] | None:
    """``inputs`` with embeddings in place of ids; None where this forward needs nothing."""
    if not isinstance(inputs, Mapping) or not (model.training and torch.is_grad_enabled()):
        return None
    ids = inputs.get("input_ids")
    if ids is None or any(
        inputs.get(key) is not None for key in (*encoded.VISUAL, "inputs_embeds")
    ):
        return None
    base = without_adapters(model)
    embeddings = base.get_input_embeddings()(ids)
    nothing = sum(each.mean() for each in _features(base, _image(template, ids.device))) * 0.0
    return {**inputs, "inputs_embeds": embeddings + nothing.to(embeddings.dtype)}


def _features(base: Any, told: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """What the language model would see of the image, behind the aligner."""
    wanted = {}
    for name, parameter in inspect.signature(base.get_image_features).parameters.items():
        if name in told:
            wanted[name] = told[name]
        elif parameter.default is parameter.empty and hasattr(base.config, name):
            wanted[name] = getattr(base.config, name)
    out = base.get_image_features(**wanted)
    return list(_tensors(getattr(out, "pooler_output", out)))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _image(template: Any, device: torch.device) -> dict[str, torch.Tensor]:
    """The tensors of one black image, encoded by the template itself once a process and kept on
    ``device``: moving them anew for each step would wait."""
    key = id(template), device
    if key not in _built:
        from PIL import Image

        alone = copy.copy(template)
        alone.mode, alone.max_length = "train", None
        black = Image.new("RGB", (_SIDE, _SIDE))
        messages = [
            {"role": "user", "content": "<image>"},
            {"role": "assistant", "content": "."},
        ]
        row = alone.encode({"messages": messages, "images": [black]})
        # Copies: ms-swift encodes in inference mode, and such a tensor is not for a backward.
        _built[key] = {
            name: value.to(device).clone()
            for name, value in row.items()
            if isinstance(value, torch.Tensor)
        }
    return _built[key]
