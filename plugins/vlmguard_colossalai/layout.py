"""How Gemini laid parameters out in chunks, as far as it decides what ranks must do alike."""

from __future__ import annotations

from typing import Any


def engine(model: Any) -> Any:
    """The module with Gemini's managers and hooks: ``model``, or inside it in 0.3.0 and 0.3.1."""
    while not hasattr(model, "gemini_manager"):
        model = model.module
    return model


def reorders(model: Any, inner: Any) -> bool:
    """Whether a tower that runs on one rank only makes that rank gather a chunk once more.

    Each operation lets go of the chunks it does not need. The token embedding's chunk is let go of
    by the tower's first operation, and gathered again if what follows lives in it too; on a rank
    without images it was still there. Where the embedding is alone in its chunk, or frozen (then it
    is in none), the order is the same. Prefetching and the "auto" policy count operations.
    """
    manager = model.gemini_manager
    policy = getattr(manager, "placement_policy", None)  # 0.3.8 on, and so is prefetching
    if manager.policy_name != "static" or getattr(policy, "max_prefetch", 0):
        return True
    find = getattr(inner, "get_input_embeddings", None)
    embedding = getattr(find(), "weight", None) if find is not None else None
    if embedding is None:
        return True  # not known: the safe answer
    chunk = model.chunk_manager.tensor_chunk_map.get(embedding)
    return chunk is not None and len(chunk.tensors_info) > 1


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
