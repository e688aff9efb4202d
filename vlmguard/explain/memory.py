"""Reads the numbers of an out-of-memory message, and keeps the global batch when it is cut."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNIT = {"KiB": 2**-20, "MiB": 2**-10, "GiB": 1.0, "bytes": 2**-30, "B": 2**-30, "TiB": 1024.0}
_SIZE = r"([\d.]{1,12}) (KiB|MiB|GiB|TiB|bytes|B)\b"


@dataclass(frozen=True)
class Memory:
    """GiB, None where the message does not tell; ``other``: held by other processes of the GPU."""

    asked: float | None = None
    total: float | None = None
    free: float | None = None
    allocated: float | None = None
    idle: float | None = None
    other: float | None = None
    alike: bool = False  # other processes hold about as much, each

    @property
    def much(self) -> bool:
        """Whether PyTorch holds enough that it does not use for it to matter on this card."""
        return self.idle is not None and self.idle > max(1.0, (self.total or 0.0) / 20)

    @property
    def fragmented(self) -> bool:
        """Whether it holds far more than was asked for, in pieces that are too small."""
        return self.much and self.asked is not None and (self.idle or 0.0) >= 1.5 * self.asked

    @property
    def scattered(self) -> bool:
        """Whether that and what is free would have met the request, were it in one piece."""
        left = (self.idle or 0.0) + (self.free or 0.0)
        return self.much and self.asked is not None and left >= self.asked

    @property
    def full(self) -> bool:
        """Whether a small request failed because the card was full before it."""
        if self.asked is None or self.total is None or self.allocated is None:
            return False
        return self.allocated > 0.85 * self.total and self.asked < 0.06 * self.total

    @property
    def huge(self) -> bool:
        """Whether this one request could not be met by a card that is half empty."""
        return self.asked is not None and self.total is not None and self.asked > 0.5 * self.total


def read(message: str) -> Memory:
    """The numbers of torch's message, old and new."""
    asked = _find(rf"Tried to allocate (?:more than )?{_SIZE}", message)
    total = _find(rf"total capac(?:ity|ty) of {_SIZE}", message) or _find(
        rf"; {_SIZE} total capacity", message
    )
    free = _find(rf"of which {_SIZE} (?:is free|i?s? ?f?r?e?$)", message)  # cut, too
    if free is None:
        free = _find(rf"; {_SIZE} free", message)
    allocated = _find(rf"{_SIZE} is allocated by PyTorch", message) or _find(
        rf"{_SIZE} already allocated", message
    )
    idle = _find(rf"{_SIZE} is reserved by PyTorch but unallocated", message)
    reserved = _find(rf"{_SIZE} reserved in total by PyTorch", message)
    if idle is None and reserved is not None and allocated is not None:
        idle = max(reserved - allocated, 0.0)
    others = [
        _gib(*m) for m in re.findall(rf"Process \d{{1,9}} has {_SIZE} memory in use", message)
    ]
    if others and "this process has" not in message:
        _take_ours_out(others, (allocated or 0.0) + (idle or 0.0))
    ours = (allocated or 0.0) + (idle or 0.0)
    other = sum(others) if others else _unseen(message, total, free, allocated)
    if other is None and "this process has" not in message and None not in (total, free, idle):
        other = _mostly((total or 0.0), (free or 0.0) + ours)
    alike = bool(others) and all(0.6 * ours < each < 1.6 * ours + 1 for each in others)
    return Memory(asked, total, free, allocated, idle, other, alike)


def _unseen(
    message: str, total: float | None, free: float | None, allocated: float | None
) -> float | None:
    """What nobody in this container holds: of the whole, less what is free and what is ours."""
    ours = _find(rf"this process has {_SIZE} memory in use", message)
    if ours is None or total is None or free is None or ours < (allocated or 0.0):
        return None  # NVML told nothing of this process
    left = total - free - ours
    return left if left > 0.1 * total else None


def _mostly(total: float, known: float) -> float | None:
    """torch before 2.2 told nothing of the process as a whole: what CUDA's own context and NCCL
    hold beside PyTorch is never most of a card."""
    return total - known if total - known > 0.6 * total else None


def _take_ours_out(held: list[float], least: float) -> None:
    """In a container NVML knows this process by another number: torch then lists it among the
    others. It is the one that holds what torch says that it holds, or the next larger one."""
    ours = min((each for each in held if each >= least - 0.01), default=None)
    if ours is not None:
        held.remove(ours)


def _find(pattern: str, message: str) -> float | None:
    match = re.search(pattern, message)
    return _gib(match[1], match[2]) if match else None


def _gib(number: str, unit: str) -> float:
    try:
        return float(number) * _UNIT[unit]
    except ValueError:
        return 0.0


def size(gib: float | None) -> str:
    """``2.5 GiB``, ``96 MiB``."""
    if gib is None:
        return "?"
    return f"{gib:.1f} GiB" if gib >= 1 else f"{gib * 1024:.0f} MiB"


def smaller(micro: int | None, accumulation: int | None) -> tuple[int, int] | None:
    """Half the micro-batch and twice the accumulation, or None where it is 1 already.

    The product stays the same exactly: an odd micro-batch is divided by its smallest factor.
    """
    if micro is None or micro < 2:
        return None
    factor = next((n for n in range(2, micro + 1) if micro % n == 0), micro)
    return micro // factor, (accumulation or 1) * factor
