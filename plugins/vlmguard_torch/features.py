"""What computes the features of an input: a model's ``get_image_features`` and its like; where it
has none for audio (Qwen2-Audio), its audio tower and what projects that tower's output."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from vlmguard_torch import towers


def known(module: Any, kind: str) -> bool:
    """Whether this module computes the features of ``kind``, as far as can be told."""
    return hasattr(type(module), f"get_{kind}_features") or guessed(module, kind)


def of(module: Any, kind: str) -> Callable[..., Any]:
    """The method, or what stands for it. Raises AttributeError where neither is there."""
    parts = None if hasattr(type(module), f"get_{kind}_features") else _parts(module, kind)
    if parts is None:
        return getattr(module, f"get_{kind}_features")  # type: ignore[no-any-return]
    tower, projector = parts

    def get_audio_features(input_features: Any) -> Any:
        return projector(tower(input_features).last_hidden_state)

    return get_audio_features


def guessed(module: Any, kind: str) -> bool:
    """Whether `of` puts parts together that the model itself may put together otherwise: to be
    tried on a copy before it is used."""
    return not hasattr(type(module), f"get_{kind}_features") and bool(_parts(module, kind))


def _parts(module: Any, kind: str) -> tuple[Any, Any] | None:
    """The one audio tower and the one projector that a module with mel features holds itself."""
    if kind != "audio" or "input_features" not in _names(module):
        return None
    found = towers.by_name(module)
    paths = [path for name in ("audio", "aligner") for path in found.get(name, ())]
    if found.get("vision") or len(paths) != 2 or any("." in path for path in paths):
        return None
    tower, projector = (module.get_submodule(path) for path in paths)
    return (tower, projector) if "input_features" in _names(tower) else None


def _names(module: Any) -> frozenset[str]:
    return frozenset(inspect.signature(type(module).forward).parameters)
