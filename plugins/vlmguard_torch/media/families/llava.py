"""LLaVA-1.5, -NeXT and -OneVision: pixel values, in the later two image sizes; no grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NEEDS: Mapping[str, tuple[str, ...]] = {}


def placeholder_ids(config: Any) -> tuple[int, ...]:
    """The image placeholder's id (``image_token_index`` before transformers 4.50)."""
    for name in ("image_token_id", "image_token_index"):
        token = getattr(config, name, None)
        if isinstance(token, int):
            return (token,)
    return ()


def untrained(config: Any) -> tuple[str, ...]:
    """Parts of names that get no gradient by design: the feature layer (-2) lies before them
    (huggingface/trl#1936)."""
    vision = getattr(config, "vision_config", None)
    layers = getattr(vision, "num_hidden_layers", None)
    feature = getattr(config, "vision_feature_layer", -2)
    if not isinstance(layers, int) or not isinstance(feature, int) or feature >= 0:
        return ()
    unused = range(layers + feature + 1, layers)
    return ("post_layernorm", *(f"encoder.layers.{number}." for number in unused))


def expected(sample: Mapping[str, Any], config: Any, prefix: str) -> int | None:
    """Not told by the sample alone: older ms-swift expands the placeholder inside forward."""
    return None
