"""The numbers of torch's out-of-memory message: what was asked for, and who holds the card."""

from __future__ import annotations

import re

from vlmguard_explain.match.catalogue import table

_UNIT = {"KiB": 2**-20, "MiB": 2**-10, "GiB": 1.0, "bytes": 2**-30, "B": 2**-30, "TiB": 1024.0}
_SIZE = r"([\d.]{1,12}) (KiB|MiB|GiB|TiB|bytes|B)\b"


_KNOWN = frozenset(("ours", "idle", "reserved"))  # what this process holds


def read(message: str) -> dict[str, float]:
    """Name → GiB; 0 or no entry where the message does not tell.

    ``idle``: held by PyTorch and not used. ``fragmented``: far more of that than was asked for, in
    pieces that are too small. ``scattered``: with what is free it would have met the request.
    ``onerow``: one request that a half-empty card could not meet. ``othermemory``: of other
    processes.
    """
    every = {name: _sizes(text, message) for name, text in table("values")["memory"].items()}
    found = {name: sizes[0] for name, sizes in every.items() if sizes}
    used, asked, total = (found.get(name, 0.0) for name in ("allocated", "asked", "total"))
    idle = found.get("idle", max(found.get("reserved", 0.0) - used, 0.0))
    much = bool(asked) and idle > max(1.0, total / 20)
    return {
        **found,
        "fragmented": idle if much and idle >= 1.5 * asked else 0.0,
        "scattered": idle if much and idle + found.get("free", 0.0) >= asked else 0.0,
        "onerow": asked if total and asked > total / 2 else 0.0,
        "othermemory": _others(found, every["listed"], used + idle),
    }


def _others(found: dict[str, float], listed: list[float], held: float) -> float:
    """What other processes hold: those that are listed, else the rest of the card, if that is most
    of it: CUDA's own context and NCCL hold little."""
    if "ours" not in found:
        # In a container NVML knows this process by another number, and torch lists it among the
        # others. It is the one that holds as much as torch says, or the next larger one.
        mine = min((each for each in listed if each >= held - 0.01), default=None)
        listed = [each for each in listed if each != mine]
    if listed or not {"total", "free"} <= found.keys() or not found.keys() & _KNOWN:
        return sum(listed)
    rest = found["total"] - found["free"] - max(found.get("ours", 0.0), held)
    return rest if rest > (0.1 if "ours" in found else 0.6) * found["total"] else 0.0


def _sizes(pattern: str, message: str) -> list[float]:
    matches = re.finditer(pattern.replace("@", _SIZE), message)
    pairs = (list(filter(None, match.groups())) for match in matches)
    return [float(size) * _UNIT[unit] for size, unit in pairs if size.strip(".").count(".") < 2]


def shown(message: str, name: str, least: float) -> str:
    """``2.5 GiB``, ``96 MiB``; "" where it is not known."""
    gib = read(message).get(name)
    if gib is None or gib < least:
        return ""
    return f"{gib:.1f} GiB" if gib >= 1 else f"{gib * 1024:.0f} MiB"
