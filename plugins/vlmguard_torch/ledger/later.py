"""Tensors of a page, copied to the host without waiting for their device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from vlmguard.ledger.between_ranks import packed
from vlmguard.ledger.between_ranks.packed import Block, walk

_CODES = {torch.float32: "f", torch.float64: "d", torch.int64: "q", torch.int8: "b"}
_AS = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.bool: torch.int8,
    torch.uint8: torch.int64,
    torch.int16: torch.int64,
    torch.int32: torch.int64,
}


class Later:
    """A page whose tensors are on their way to the host.

    Those of the CPU are copied at once. Those of a device are put together, a copy for each device
    and dtype, into pinned memory; an event tells when they are there.
    """

    def __init__(self, page: Mapping[str, Any]) -> None:
        self._together: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
        self._page = walk(page, self._take, torch.Tensor)
        self._hosts = {key: _to_host(parts) for key, parts in self._together.items()}
        self._together.clear()
        self._events = [_event(device) for device in {key[0] for key in self._hosts}]

    def _take(self, tensor: torch.Tensor) -> Any:
        tensor = tensor.detach()
        tensor = tensor.to(_AS.get(tensor.dtype, tensor.dtype))
        if tensor.device.type == "cpu":
            return block(tensor)
        parts = self._together.setdefault((tensor.device, tensor.dtype), [])
        start = sum(part.numel() for part in parts)
        parts.append(tensor.reshape(-1))
        return _Part((tensor.device, tensor.dtype), start, tuple(tensor.shape))

    def ready(self) -> bool:
        """Whether all of it has arrived."""
        return all(event is None or event.query() for event in self._events)

    def page(self) -> Any:
        """With blocks in place of tensors; only once it is `ready`."""

        def found(part: _Part) -> Block:
            size = 1
            for each in part.shape:
                size *= each
            host = self._hosts[part.key][part.start : part.start + size]
            return block(host.reshape(part.shape))

        return walk(self._page, found, _Part)


class _Part:
    """A tensor within what is copied together."""

    def __init__(self, key: Any, start: int, shape: tuple[int, ...]) -> None:
        self.key, self.start, self.shape = key, start, shape


def block(tensor: torch.Tensor) -> Block:
    """A tensor of the CPU as a block."""
    tensor = tensor.detach().to(_AS.get(tensor.dtype, tensor.dtype)).contiguous()
    data = tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor
    return Block(_CODES[tensor.dtype], tuple(tensor.shape), data.numpy().tobytes())


def _to_host(parts: list[torch.Tensor]) -> torch.Tensor:
    whole = torch.cat(parts)
    host = torch.empty(whole.shape, dtype=whole.dtype, pin_memory=whole.device.type == "cuda")
    return host.copy_(whole, non_blocking=True)


def _event(device: torch.device) -> Any:
    """None where a copy has waited: no event is known for such a device."""
    module = getattr(torch, device.type, None)
    if not hasattr(module, "Event"):
        return None
    event = module.Event()
    event.record(module.current_stream(device))
    return event


def as_json(found: Any) -> Any:
    """Tensors as lists of numbers."""
    return packed.plain(Later({"found": found}).page())["found"]
