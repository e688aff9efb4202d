"""LLaVA-1.5 and LLaVA-NeXT: pixel values and, in NeXT, image sizes; no grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MODEL_TYPES = ("llava", "llava_next")
NEEDS: Mapping[str, tuple[str, ...]] = {}
TRAILING_IMAGE = True


def placeholder_ids(config: Any) -> tuple[int, ...]:
    """The image placeholder's id (``image_token_index`` before transformers 4.50)."""
    for name in ("image_token_id", "image_token_index"):
        token = getattr(config, name, None)
        if isinstance(token, int):
            return (token,)
    return ()


def expected(sample: Mapping[str, Any], config: Any, prefix: str) -> int | None:
    """Not told by the sample alone: older ms-swift expands the placeholder inside forward."""
    return None
