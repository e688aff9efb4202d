"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL: a grid per image says how many tokens it fills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NEEDS = {"pixel_values": ("image_grid_thw",), "pixel_values_videos": ("video_grid_thw",)}


def placeholder_ids(config: Any) -> tuple[int, ...]:
    """Ids of image and video placeholders."""
    return tuple(
        token
        for name in ("image_token_id", "video_token_id")
        if isinstance(token := getattr(config, name, None), int)
    )


def untrained(config: Any) -> tuple[str, ...]:
    """Parts of names that get no gradient by design: none."""
    return ()


def expected(sample: Mapping[str, Any], config: Any, prefix: str) -> int | None:
    """Tokens that the sample's grids fill: product over merge², summed. Grids stay on the CPU."""
    vision = getattr(config, "vision_config", None)
    merge = getattr(vision, "spatial_merge_size", None)
    if not merge:
        return None
    total = 0
    for name in ("image_grid_thw", "video_grid_thw"):
        grid = sample.get(prefix + name)
        if grid is not None:
            total += sum(int(row[0] * row[1] * row[2]) // merge**2 for row in grid.tolist())
    return total
