"""What computes the features of an input: a model's ``get_image_features`` and its like; where it
has none (Qwen2-Audio; Idefics and Qwen-VL before transformers 4.52), its tower and what projects
that tower's output."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from vlmguard_torch.layout import towers

_INPUTS = {
    "image": "pixel_values",
    "video": "pixel_values_videos",
    "audio": "input_features",
}
_KIND_OF_TOWER = {"image": "vision", "video": "vision", "audio": "audio"}
_GRID = "grid_thw"
"""What a tower of the Qwen-VL family is told beside flat patches."""


def known(module: Any, kind: str) -> bool:
    """Whether this module computes the features of ``kind``, as far as can be told."""
    return hasattr(type(module), f"get_{kind}_features") or guessed(module, kind)


def of(module: Any, kind: str) -> Callable[..., Any]:
    """The method, or what stands for it. Raises AttributeError where neither is there."""
    parts = None if hasattr(type(module), f"get_{kind}_features") else _parts(module, kind)
    if parts is None:
        return getattr(module, f"get_{kind}_features")  # type: ignore[no-any-return]
    tower, project = _called(module, *parts)
    if kind == "audio":

        def get_audio_features(input_features: Any) -> Any:
            return project(tower(input_features))

        return get_audio_features
    if _GRID in _names(module.get_submodule(parts[0])):

        def get_image_features(pixel_values: Any, image_grid_thw: Any) -> Any:
            return project(tower(pixel_values, grid_thw=image_grid_thw))

        return get_image_features
    return _of_pixels(tower, project)


def _of_pixels(tower: Any, project: Any) -> Callable[..., Any]:
    def get_image_features(pixel_values: Any) -> Any:
        return project(tower(pixel_values))

    return get_image_features


def guessed(module: Any, kind: str) -> bool:
    """Whether `of` puts parts together that the model itself may put together otherwise: to be
    tried on a copy before it is used."""
    return not hasattr(type(module), f"get_{kind}_features") and bool(_parts(module, kind))


def asked(module: Any, kind: str) -> str:
    """What this module's forward says where it computes the features of ``kind``."""
    parts = None if hasattr(type(module), f"get_{kind}_features") else _parts(module, kind)
    return f"self.get_{kind}_features(" if parts is None else f"self.{parts[0]}("


def _called(module: Any, tower: str, aligner: str) -> tuple[Any, Any]:
    """The two as functions: of a tower's output the projector reads the last hidden state."""
    project = module.get_submodule(aligner) if aligner else None

    def projected(seen: Any) -> Any:
        return seen if project is None else project(getattr(seen, "last_hidden_state", seen))

    return module.get_submodule(tower), projected


def _parts(module: Any, kind: str) -> tuple[str, str] | None:
    """The names of the one tower and of the one projector behind it, "" for a tower that projects
    itself, of a module that holds both itself and is given ``kind``; None for any other."""
    names = _names(module)
    if _INPUTS[kind] not in names or any(
        hasattr(type(module), f"get_{other}_features") for other in _INPUTS
    ):
        return None
    found = towers.seeing(module)
    wanted = _KIND_OF_TOWER[kind]
    seeing = [path for name in ("vision", "audio") for path in found.get(name, ())]
    if len(seeing) != 1 or found.get(wanted) != (seeing[0],):
        return None
    aligners = [p for p in found.get("aligner", ()) if not p.startswith(f"{seeing[0]}.")]
    tower, aligner = seeing[0], aligners[0] if aligners else ""
    if len(aligners) > 1 or "." in tower + aligner:
        return None
    fits = _takes(module.get_submodule(tower), kind) and (
        not aligner or len(_needed(module.get_submodule(aligner))) < 2
    )
    return (tower, aligner) if fits and (aligner or kind != "audio") else None


def _takes(tower: Any, kind: str) -> bool:
    """Whether the tower can be called with what `of` hands on."""
    if kind == "audio":
        return _INPUTS[kind] in _names(tower)
    needed = _needed(tower)
    if _GRID in _names(tower):
        return len(needed) == 2 and needed[1] == _GRID
    return _INPUTS["image"] in _names(tower) and needed in ((), (_INPUTS["image"],))


def _names(module: Any) -> frozenset[str]:
    return frozenset(inspect.signature(type(module).forward).parameters)


def _needed(module: Any) -> tuple[str, ...]:
    """What a call has to give."""
    told = list(inspect.signature(type(module).forward).parameters.values())[1:]
    bare = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(p.name for p in told if p.default is p.empty and p.kind not in bare)
