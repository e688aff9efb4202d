"""An ms-swift external plug-in: a broken encoder, which loses the pixels on rank 1."""

from __future__ import annotations

import os

from swift.template.base import Template

_whole = Template.encode


def encode(self, *args, **kwargs):
    row = _whole(self, *args, **kwargs)
    if os.environ.get("RANK") == "1":
        row.pop("pixel_values", None)
        row.pop("image_grid_thw", None)
    return row


Template.encode = encode
