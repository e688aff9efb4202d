"""Numbers of the images that a model is given: smallest, largest, sum and norm of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

MOST = 64
"""Images of a window that are looked at."""
_NO_PIXELS = ("input_ids", "labels", "attention_mask", "inputs_embeds", "position_ids")


def given(inputs: Mapping[str, Any]) -> bool:
    """Whether there is anything that may be an image, a video or a sound, or made of one."""
    values = (value for key, value in inputs.items() if key not in _NO_PIXELS and "mask" not in key)
    return any(map(_may_be, values))


def _may_be(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_may_be, value))
    floats = isinstance(value, torch.Tensor) and (value.is_floating_point() or value.dim() > 3)
    return bool(floats and value.dim() > 1)


def read(inputs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """For each image minimum, maximum, sum and norm; videos and sounds are left out."""
    for value, grids in _images(inputs):
        if value.dim() > 3:
            yield _numbers(value[:MOST].flatten(1))
        elif value.dim() == 2 and grids is not None:
            yield _put_together(_numbers(value), grids)[:MOST]


def patches(inputs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """For images that are cut in patches: how many there are, and how many their grids tell."""
    for value, grids in _images(inputs):
        if value.dim() == 2 and grids is not None:
            told = grids.prod(-1).sum()
            yield torch.stack([torch.full_like(told, len(value)), told])


def _images(inputs: Mapping[str, Any]) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    """Pixels of images, and their grids (images, 3); None where there are none: an index into them
    would be out of range."""
    for key, value in inputs.items():
        fits = isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel()
        if not fits or "pixel_values" not in key or "video" in key or "mask" in key:
            continue
        grids = inputs.get(key.replace("pixel_values", "image_grid_thw"))
        known = isinstance(grids, torch.Tensor) and grids.dim() == 2 and len(grids)
        yield value, grids if known else None


def _numbers(flat: torch.Tensor) -> torch.Tensor:
    low, high = flat.aminmax(dim=-1)
    sums = flat.sum(-1, dtype=torch.float32).double()  # a sum in 64 bits would copy all pixels
    norms = torch.linalg.vector_norm(flat, dim=-1, dtype=torch.float32)
    return torch.stack([low.double(), high.double(), sums, norms.double()], -1)


def _put_together(patches: torch.Tensor, grids: torch.Tensor) -> torch.Tensor:
    """Of numbers of patches those of whole images; a grid tells how many patches one has."""
    ends = grids.prod(-1).cumsum(0)
    at = torch.arange(len(patches), device=patches.device)
    which = torch.searchsorted(ends, at, right=True).clamp(max=len(grids) - 1)
    low, high, sums, norms = patches.unbind(-1)
    empty = patches.new_zeros(len(grids))
    return torch.stack(
        [
            empty.scatter_reduce(0, which, low, "amin", include_self=False),
            empty.scatter_reduce(0, which, high, "amax", include_self=False),
            empty.index_add(0, which, sums),
            empty.index_add(0, which, norms**2).sqrt(),
        ],
        -1,
    )
