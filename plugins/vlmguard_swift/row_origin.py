"""Which row of the data an encoded row was made from: noted where ms-swift fetches it, asked for
only where something is odd about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST = 4096
"""Rows that are remembered: more than a batch holds. Only a number and a data set each."""
_MEDIA = ("image", "video", "audio")
_TAG = "<img>"  # a path in the text itself

_noted: dict[int, tuple[Any, int, int]] = {}  # id of the encoded row → data set, index, tokens


def note(encoded: Any, dataset: Any, index: int) -> None:
    """``encoded`` was made from ``dataset[index]``."""
    if not isinstance(encoded, dict) or not hasattr(encoded.get("input_ids"), "__len__"):
        return
    _noted.pop(id(encoded), None)
    _noted[id(encoded)] = (dataset, index, len(encoded["input_ids"]))
    if len(_noted) > MOST:
        del _noted[next(iter(_noted))]


def of(encoded: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The row of the data; None where it is not known (packed, streamed, cached)."""
    dataset, index, length = _noted.get(id(encoded), (None, 0, 0))
    if dataset is None or len(encoded.get("input_ids", ())) != length:
        return None
    row = dataset[index]
    return row if isinstance(row, Mapping) else None


def media(row: Mapping[str, Any]) -> int | None:
    """Images, videos and sounds that the row names; None if its text may name more."""
    count = 0
    for key, value in row.items():
        if any(word in key for word in _MEDIA) and value:
            count += len(value) if isinstance(value, (list, tuple)) else 1
    for message in row.get("messages") or ():
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str) and _TAG in content:
            return None
        if isinstance(content, (list, tuple)):
            parts = [part.get("type", "text") for part in content if isinstance(part, Mapping)]
            count += sum(kind != "text" for kind in parts)
    return count


def name(row: Mapping[str, Any]) -> str:
    """What to look for in the data: numbers would not help, since data sets are shuffled."""
    for message in row.get("messages") or ():
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str) and content.strip():
            text = " ".join(content.split())
            return f'the row "{text[:60]}{"…" if len(text) > 60 else ""}"'
    return ""
