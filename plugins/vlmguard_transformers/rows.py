"""What kinds of rows a data set holds, from its columns: no row is decoded."""

from __future__ import annotations

from typing import Any

# Parts of the names of columns that hold or describe something to see or hear.
_MEDIA = ("image", "video", "audio", "pixel", "object", "grid")
# Media may stand in a message instead: in its text, or as a part of it.
_WORDS = '<(img|image|video|audio)|"(image|video|audio|image_url|video_url|audio_url|input_audio)"'


def kinds(dataset: Any) -> set[str] | None:
    """{"image"}, {"text"} or both, of a Hugging Face data set or one that is wrapped around it;
    None if the columns do not tell."""
    for _ in range(4):
        if hasattr(dataset, "column_names"):
            break
        dataset = getattr(dataset, "dataset", None)
    names = getattr(dataset, "column_names", None)
    if not isinstance(names, list):
        return None
    if "images" in names and "videos" not in names:
        return _by_images(dataset.data.column("images"))
    if "messages" in names and not any(part in name for name in names for part in _MEDIA):
        return {"text"} if _plain(dataset.data.column("messages")) else None
    return None


def _by_images(column: Any) -> set[str] | None:
    import pyarrow.compute as compute

    found = set()
    for chunk in column.chunks:
        lengths = compute.fill_null(compute.list_value_length(chunk), 0)
        full = compute.sum(compute.greater(lengths, 0)).as_py() or 0
        found |= ({"image"} if full else set()) | ({"text"} if full < len(chunk) else set())
    return found or None


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
