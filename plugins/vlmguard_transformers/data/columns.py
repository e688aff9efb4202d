"""What kinds of rows a data set holds, from its columns: no row is decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlmguard_torch.media.kinds import NAMES as MEDIA

# Parts of the names of columns that hold or describe images, videos or audio.
_PARTS = ("image", "video", "audio", "pixel", "object", "grid")
MOST = 200_000
"""Rows whose order is read."""
# Media may stand in a message instead: in its text, or as a part of it.
_WORDS = '<(img|image|video|audio)|"(image|video|audio|image_url|video_url|audio_url|input_audio)"'


def columns(dataset: Any) -> list[str]:
    """Names of the columns of a Hugging Face data set or one wrapped around it; [] if untold."""
    names = getattr(_inner(dataset), "column_names", None)
    return names if isinstance(names, list) else []


def is_media(name: str) -> bool:
    """Whether a column's name says that it holds or describes media."""
    return any(part in name for part in _PARTS)


def kinds(dataset: Any) -> frozenset[str] | None:
    """{"image", "text"}, {"image+video"}, …; None if the columns do not tell."""
    inner, names = _inner(dataset), columns(dataset)
    if not names or not hasattr(inner, "data"):  # a streamed data set
        return None
    if any(name in MEDIA for name in names):
        table = _by_media(inner, names)
        found = table.group_by(table.column_names).aggregate([]).to_pylist()
        return frozenset(map(_kind, found)) or None
    if "messages" in names and not any(is_media(name) for name in names):
        return frozenset({"text"}) if _plain(inner.data.column("messages")) else None
    return None


def in_order(dataset: Any) -> list[str] | None:
    """The kind of each row; None if the columns do not tell, or for very many."""
    inner, names = _inner(dataset), columns(dataset)
    if not hasattr(inner, "data") or not any(name in MEDIA for name in names):
        return None
    if len(inner) > MOST:
        return None
    return [_kind(row) for row in _by_media(inner, names).to_pylist()]


def _inner(dataset: Any) -> Any:
    for _ in range(4):
        if hasattr(dataset, "column_names"):
            break
        dataset = getattr(dataset, "dataset", None)
    return dataset


def _chosen(dataset: Any, values: Any) -> Any:
    """Of an arrow column, the rows that were chosen, where some were (select, shuffle, split)."""
    chosen = getattr(dataset, "_indices", None)
    return values if chosen is None else values.take(chosen.column(0))


def _by_media(dataset: Any, names: list[str]) -> Any:
    """A column for each kind of media: whether the row has any."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    filled: dict[str, Any] = {}
    for name in (name for name in names if name in MEDIA):
        kind, there = MEDIA[name], _chosen(dataset, _filled(dataset.data.column(name)))
        filled[kind] = compute.or_(filled[kind], there) if kind in filled else there
    return arrow.table(filled)


def _kind(row: Mapping[str, Any]) -> str:
    return "+".join(kind for kind in ("image", "video", "audio") if row.get(kind)) or "text"


def _filled(column: Any) -> Any:
    """Row by row, whether there is anything: a list with an element, or a value. Looks at offsets
    and validity alone: images may be embedded."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    types = arrow.types
    if types.is_list(column.type) or types.is_large_list(column.type):
        return compute.greater(compute.fill_null(compute.list_value_length(column), 0), 0)
    return compute.is_valid(column)


def _plain(column: Any) -> bool:
    """Whether all messages are text without a word of any media."""
    import pyarrow.compute as compute

    for chunk in column.chunks:
        texts = _texts(chunk.flatten())
        if texts is None or compute.any(compute.match_substring_regex(texts, _WORDS)).as_py():
            return False
    return True


def _texts(messages: Any) -> Any:
    """Messages of a struct or of JSON, by release of datasets, as an array of strings."""
    import pyarrow as arrow

    if arrow.types.is_struct(messages.type):
        names = [field.name for field in messages.type]
        messages = messages.field("content") if "content" in names else messages
    messages = getattr(messages, "storage", messages)
    known = arrow.types.is_string(messages.type) or arrow.types.is_large_string(messages.type)
    return messages if known else None
