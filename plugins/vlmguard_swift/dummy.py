"""Complete a text-only batch: an image at the end of its first row, without a label.

The image is encoded by ms-swift's own template. It follows the last token of the row, so no token
before it can see it, and its labels are -100: the loss is the same, and every rank runs the tower.
"""

from __future__ import annotations

import copy
from typing import Any

from vlmguard_swift import encoded

_SIDE = 28  # pixels; the processor resizes it to what the model wants
_built: dict[int, dict[str, Any]] = {}


def complete(template: Any, batch: Any) -> list[Any] | None:
    """The batch with an image in it; None if it already has one. Rows are copied, not changed."""
    if not isinstance(batch, list) or not batch or not isinstance(batch[0], dict):
        return None
    if any(encoded.keys(row, prefix) for row in batch for prefix in encoded.prefixes(row)):
        return None
    prefix = encoded.prefixes(batch[0])[0]
    return [_append(batch[0], prefix, _image(template)), *batch[1:]]


def _append(row: dict[str, Any], prefix: str, image: dict[str, Any]) -> dict[str, Any]:
    row = dict(row)
    count = len(image["input_ids"])
    row[prefix + "input_ids"] = [*row[prefix + "input_ids"], *image["input_ids"]]
    for key, filler in (("labels", -100), ("loss_scale", 0.0)):
        if row.get(prefix + key) is not None:
            row[prefix + key] = [*row[prefix + key], *([filler] * count)]
    for key, value in image.items():
        if key in encoded.VISUAL:
            row[prefix + key] = value
    if isinstance(row.get(prefix + "length"), int):
        row[prefix + "length"] += count
    return row


def _image(template: Any) -> dict[str, Any]:
    """One encoded black image, built once a process by the template itself."""
    key = id(template)
    if key not in _built:
        from PIL import Image

        alone = copy.copy(template)
        alone.mode, alone.max_length = "train", None
        black = Image.new("RGB", (_SIDE, _SIDE))
        messages = [
            {"role": "user", "content": "<image>"},
            {"role": "assistant", "content": "."},
        ]
        _built[key] = alone.encode({"messages": messages, "images": [black]})
    return _built[key]
