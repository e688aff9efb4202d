"""A linear sketch: a few sums that stand for a whole tensor.

The entries of a tensor are laid out in rows of `WIDTH`. Each row is multiplied by a sign that its
place decides, and the rows are added. The sketch of a sum is the sum of sketches, and that of a
shard, read from its own start, is its part of the whole. So gradients are compared without keeping
them, whatever lies between: averages, buckets, shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

WIDTH = 16
"""Sums a tensor. Of 16 the length of a sketch is within a factor of two of the tensor's."""
BLOCK = 1 << 20
"""Entries that are held as 32-bit numbers at a time: 4 MB, and as many for their products."""
_ROWS = BLOCK // WIDTH
_FEW = 4096
"""Entries whose products are added in 64 bits at once: the sum of more takes longer so."""
_SIGNS: dict[torch.device, torch.Tensor] = {}


def sums(device: torch.device, rows: int, width: int = WIDTH) -> torch.Tensor:
    """Zeros to add sketches to, in 64 bits where the device knows them."""
    return torch.zeros(rows, width, dtype=wide(device), device=device)


def wide(device: torch.device) -> torch.dtype:
    """64 bits, where the device knows them."""
    return torch.float32 if device.type == "mps" else torch.float64


def table(
    rows: Sequence[torch.Tensor | None], home: torch.device, width: int = WIDTH
) -> torch.Tensor:
    """One row after the other, on one device; zeros for None."""
    empty = sums(home, 1, width)[0]
    found = [empty if row is None else row.to(home, non_blocking=True) for row in rows]
    return torch.stack(found) if found else sums(home, 0, width)


def times(found: torch.Tensor, weight: float) -> torch.Tensor:
    """A sketch's part of the mean over ranks."""
    return found if weight == 1.0 else found * weight


def sketch(tensor: torch.Tensor, start: int = 0) -> torch.Tensor:
    """The sketch of a tensor, or of a shard that begins at entry ``start`` of the whole."""
    tensor = tensor.detach()
    if start == 0 and 0 < tensor.numel() <= BLOCK:
        return _whole(tensor)
    found = sums(tensor.device, 1)[0]
    for at, part in _blocks(tensor, start):
        found.add_(_rows(part, at))
    return found


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """Of a tensor of one block: most are such, and each operation counts."""
    to, count = wide(tensor.device), tensor.numel()
    if count > _FEW or count % WIDTH or not tensor.is_contiguous():
        return _rows(tensor.reshape(-1), 0).to(to)
    rows = tensor.view(-1, WIDTH)
    return torch.sum(rows * _signs(tensor.device)[: len(rows)], 0, dtype=to)


def _rows(part: torch.Tensor, at: int) -> torch.Tensor:
    """Of a part that lies within one block of the whole."""
    first, ahead = divmod(at % BLOCK, WIDTH)
    behind = -(ahead + part.numel()) % WIDTH
    if ahead or behind:
        part = torch.nn.functional.pad(part, (ahead, behind))
    rows = part.view(-1, WIDTH)
    signs = _signs(part.device)
    # A sign is a 32-bit float, so each product has at least 32 bits. This is not a matrix product:
    # TF32 and autocast would round that.
    found = (rows * signs[first : first + len(rows)]).sum(0)
    return found * signs[at // BLOCK % _ROWS] if at >= BLOCK else found


def _signs(device: torch.device) -> torch.Tensor:
    """One sign a row of a block, and a block; by a generator of its own."""
    if device not in _SIGNS:
        made = torch.Generator().manual_seed(1)
        bits = torch.randint(0, 2, (_ROWS, 1), generator=made, device="cpu")
        _SIGNS[device] = (bits * 2 - 1).to(device, torch.float32)
    return _SIGNS[device]


def _blocks(tensor: torch.Tensor, start: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Flat parts with their places, none across the border of a block of the whole."""
    if not tensor.is_contiguous() and tensor.dim() > 1 and tensor.numel() > BLOCK:
        inner = tensor[0].numel()
        step = max(1, BLOCK // inner)
        for row in range(0, len(tensor), step):
            some = tensor[row] if inner > BLOCK else tensor[row : row + step].contiguous()
            yield from _blocks(some, start + row * inner)
        return
    flat, at = tensor.reshape(-1), start
    while at < start + len(flat):
        end = min((at // BLOCK + 1) * BLOCK, start + len(flat))
        yield at, flat[at - start : end - start]
        at = end


def norm(tensor: torch.Tensor) -> torch.Tensor:
    """The root of the sum of squares, in 32 bits at least. Of low precision the CPU would make a
    copy in 32 bits of the whole."""
    tensor = tensor.detach()
    if tensor.device.type != "cpu" or tensor.dtype.itemsize > 2 or tensor.numel() <= BLOCK:
        to = torch.promote_types(tensor.dtype, torch.float32)
        return torch.linalg.vector_norm(tensor, dtype=to)
    parts = [torch.linalg.vector_norm(part, dtype=torch.float32) for _, part in _blocks(tensor, 0)]
    return torch.linalg.vector_norm(torch.stack(parts))


def readable(gradient: Any) -> bool:
    """Whether its entries can be read one after the other: not sparse, complex or without data."""
    return (
        isinstance(gradient, torch.Tensor)
        and gradient.layout == torch.strided
        and gradient.is_floating_point()
        and gradient.device.type != "meta"
    )
