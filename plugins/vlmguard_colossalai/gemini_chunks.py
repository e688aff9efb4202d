"""How Gemini laid parameters out in chunks, as far as it decides what ranks must do alike."""

from __future__ import annotations

from typing import Any


def engine(model: Any) -> Any:
    """The module with Gemini's managers and hooks: ``model``, or inside it in 0.3.0 and 0.3.1."""
    while not hasattr(model, "gemini_manager"):
        model = model.module
    return model


def mixes(model: Any, inner: Any, seeing: set[int]) -> bool:
    """Whether a chunk holds parameters of towers that see beside others: each backward then has to
    reach both. ``seeing`` holds their ids; ``model`` is `engine`'s.
    """
    chunk_of = model.chunk_manager.tensor_chunk_map
    kinds: dict[Any, set[bool]] = {}
    for parameter in inner.parameters():
        if (chunk := chunk_of.get(parameter)) is not None:
            kinds.setdefault(chunk, set()).add(id(parameter) in seeing)
    return any(len(found) > 1 for found in kinds.values())


def overwrites(model: Any) -> bool:
    """Whether backward puts gradients where the weights were; the step puts weights back."""
    return bool(getattr(getattr(model, "chunk_manager", None), "reuse_fp16_chunk", False))
