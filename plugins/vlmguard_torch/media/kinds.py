"""What kinds of input a batch holds, by its keys: no tensor is read."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

_PARTS = {
    "pixel_values_videos": "video",
    "pixel_values": "image",
    "input_features": "audio",
    "input_values": "audio",
}
"""Parts of the keys that transformers' processors give, with any prefix."""
NAMES = {
    "image": "image",
    "images": "image",
    "video": "video",
    "videos": "video",
    "audio": "audio",
    "audios": "audio",
}
"""Keys of LLaVA's kin and others, and columns of data sets: one medium or a list, and its kind."""


def kinds_of(inputs: Any) -> tuple[str, ...]:
    """("image", "video"), …, ("text",) without any media; () for what is no mapping.

    Of a list of rows (GRPO's, not encoded yet) what their own keys name; () if they name nothing.
    """
    if isinstance(inputs, (list, tuple)):
        rows = (row for row in inputs if isinstance(row, Mapping))
        return tuple(sorted({kind for row in rows for kind in _kinds(row)}))
    if not isinstance(inputs, Mapping):
        return ()
    return tuple(sorted(set(_kinds(inputs)))) or ("text",)


def _kinds(inputs: Mapping[Any, Any]) -> Iterator[str]:
    for key, value in inputs.items():
        if not isinstance(key, str) or value is None:
            continue
        if key == "media" and isinstance(value, Mapping):  # VILA's: a list for each kind
            yield from _kinds(value)
        elif key in NAMES:
            if not isinstance(value, (list, tuple)) or value:
                yield NAMES[key]
        else:
            yield from _by_part(key)


@functools.lru_cache(256)
def _by_part(key: str) -> list[str]:
    return [kind for part, kind in _PARTS.items() if part in key][:1]


def untold(inputs: Any) -> bool:
    """Whether a batch without media by its keys has a tensor that may be some: floating numbers
    of three dimensions or more under a name that is nobody's."""
    return kinds_of(inputs) == ("text",) and any(
        getattr(value, "ndim", 0) > 2 and value.dtype.is_floating_point and "mask" not in str(key)
        for key, value in inputs.items()
        if hasattr(value, "dtype")
    )
