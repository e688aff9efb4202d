"""A saved checkpoint's tensors as the hub's have them, where transformers turns them on loading.

transformers turns some experts' tensors only if their shape is not the model's. Under ZeRO-3 a
parameter has no shape then (5.19), so that it turns all: right for a checkpoint of the hub, and
wrong for one that it saved itself.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any


def turn(model: Any, folder: Path) -> None:
    """Turn them in the files of ``folder``. Nothing is done where this release turns nothing."""
    turned = _turned(str(model.config.model_type))
    if not turned:
        return
    saved = importlib.import_module("safetensors.torch")
    for file in folder.glob("*.safetensors"):
        weights = saved.load_file(file)
        for name, weight in weights.items():
            for pattern, dims in turned:
                if re.search(pattern, name):
                    weights[name] = weight.transpose(*dims).contiguous()
        saved.save_file(weights, file, metadata={"format": "pt"})


def _turned(kind: str) -> list[tuple[str, tuple[int, int]]]:
    """(pattern of names, dimensions) of what is turned if its shape asks for it."""
    try:
        module = importlib.import_module("transformers.conversion_mapping")
        known = module.get_checkpoint_conversion_mapping(kind) or ()
    except (ImportError, AttributeError):
        return []
    found = []
    for converter in known:
        for operation in getattr(converter, "operations", None) or ():
            if getattr(operation, "check_dims", False):
                dims = operation.dim0, operation.dim1
                found += [(pattern, dims) for pattern in converter.source_patterns]
    return found
