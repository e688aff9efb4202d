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
        if not isinstance(key, str) or value is None or _is_empty(value):
            continue
        if key == "media" and isinstance(value, Mapping):  # VILA's: a list for each kind
            yield from _kinds(value)
        elif key in NAMES:
            yield NAMES[key]
        else:
            yield from _by_part(key)


def _is_empty(value: Any) -> bool:
    """A list, mapping or tensor without an entry, also in a list for each row: the batch has none
    of it."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_empty, value))
    if isinstance(value, Mapping):
        return not value
    try:
        shape = getattr(value, "shape", ())
    except Exception:  # a nested tensor raises
        return False
    return isinstance(shape, tuple) and 0 in shape


@functools.lru_cache(256)
def _by_part(key: str) -> list[str]:
    return [kind for part, kind in _PARTS.items() if part in key][:1]


def untold(inputs: Any) -> bool:
    """Whether a batch without media by its keys has something that may be some: floating numbers
    of three dimensions or more under a name that is nobody's, in a list or a mapping too."""
    return kinds_of(inputs) == ("text",) and any(
        _may_be_media(value) for key, value in inputs.items() if "mask" not in str(key)
    )


_LOOKED = 64
"""Entries of a list that are looked at."""


def _may_be_media(value: Any) -> bool:
    if isinstance(value, Mapping):
        return kinds_of(value) != ("text",) or untold(value)
    if isinstance(value, (list, tuple)):
        return any(map(_may_be_media, value[:_LOOKED]))
    floats = _is_floating(getattr(value, "dtype", None))
    return floats and getattr(value, "ndim", 0) > 2 and not _is_empty(value)


def _is_floating(dtype: Any) -> bool:
    """Of torch, or of NumPy."""
    known = getattr(dtype, "is_floating_point", None)
    return bool(getattr(dtype, "kind", "") == "f" if known is None else known)
