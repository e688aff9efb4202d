"""Pixels and sound of the shapes that a forward's argument names call for."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch

NAMES = ("image", "video", "audio")
_ARGUMENTS = {
    "image": ("pixel_values", "pixel_values_images", "image_patches"),
    "video": ("pixel_values_videos",),
    "audio": ("input_features", "input_values", "audio_input_features"),
}
_GETTERS = {name: f"get_{name}_features" for name in NAMES}


def signature(function: Any) -> Mapping[str, inspect.Parameter]:
    """Parameters of a model's forward, or of a function. A forward put on the instance that takes
    whatever it is given has the class's."""
    if not isinstance(function, torch.nn.Module):
        return inspect.signature(function).parameters
    own = inspect.signature(function.forward).parameters
    if any(part.kind is part.POSITIONAL_OR_KEYWORD for part in own.values()):
        return own
    return dict(list(inspect.signature(type(function).forward).parameters.items())[1:])


def own_argument(model: Any, name: str) -> bool:
    return name in signature(model)


def arguments(model: Any) -> frozenset[str]:
    """Names that the forward takes, those of the model inside it included where it has
    ``**kwargs``, and those of its ``get_*_features``: there they are handed on."""
    own = signature(model)
    names = set(own)
    inner = getattr(model, getattr(model, "base_model_prefix", "") or "model", None)
    inner = inner if isinstance(inner, torch.nn.Module) else getattr(model, "model", None)
    if isinstance(inner, torch.nn.Module) and inner is not model and _open(own):
        names |= set(signature(inner))
    for getter in _GETTERS.values():
        if _open(own) and hasattr(model, getter):
            names |= set(signature(getattr(model, getter)))
    return frozenset(names)


def _open(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(part.kind is inspect.Parameter.VAR_KEYWORD for part in parameters.values())


def accepts(model: Any, name: str) -> bool:
    """Whether the class takes this medium at all."""
    names = arguments(model)
    if name == "video" and not names & set(_ARGUMENTS["video"]):
        return False
    return bool(names & set(_ARGUMENTS[name]))


def special_ids(config: Any) -> frozenset[int]:
    """Every token id that the config gives a meaning."""
    found: set[int] = set()
    for part in _parts(config):
        for key, value in vars(part).items():
            if key.endswith(("_token_id", "_token_index", "_token_ids")):
                values = value if isinstance(value, (list, tuple)) else [value]
                found |= {item for item in values if isinstance(item, int)}
    return frozenset(found)


def placeholders(config: Any, name: str) -> list[int | None]:
    """Ids that may stand for one feature, likeliest first: GLM-4V's frames are images."""
    own = _id(config, f"{name}_token_id", f"{name}_token_index")
    image = _id(config, "image_token_id", "image_token_index", "media_placeholder_token_id")
    found = [own, image] if name in ("image", "video") else [own]
    return list(dict.fromkeys(at for at in found if at is not None)) or [None]


def around(config: Any, name: str) -> tuple[list[int], list[int]]:
    """Ids before and after one medium."""
    kinds = ("vision", name) if name != "audio" else (name,)
    first = next(
        (at for kind in kinds if (at := _id(config, f"{kind}_start_token_id")) is not None), None
    )
    last = next(
        (at for kind in kinds if (at := _id(config, f"{kind}_end_token_id")) is not None), None
    )
    return [first] if first is not None else [], [last] if last is not None else []


def _id(config: Any, *names: str) -> int | None:
    for name in names:
        for part in _parts(config):
            value = getattr(part, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return None


def _parts(config: Any) -> list[Any]:
    nested = [part for part in vars(config).values() if hasattr(part, "model_type")]
    return [config, *(inner for part in nested for inner in _parts(part))]


def count(model: Any, name: str, inputs: Mapping[str, Any]) -> int | None:
    """Features that the model makes of these inputs, or None where it doesn't say."""
    for holder in (model, getattr(model, "model", None)):
        getter = getattr(holder, _GETTERS[name], None)
        if getter is None:
            continue
        with torch.no_grad():
            try:
                made = getter(**_given(holder, getter, inputs))
            except Exception:
                continue
        return _rows(made)
    return None


def _given(holder: Any, getter: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``inputs`` it takes, and what else it asks of the config (the feature layer, before
    transformers 4.52)."""
    told = signature(getter)
    given = {key: value for key, value in inputs.items() if key in told}
    for name, parameter in told.items():
        lacks = name not in given and parameter.default is parameter.empty
        if lacks and hasattr(holder.config, name):
            given[name] = getattr(holder.config, name)
    return given


def _rows(made: Any) -> int | None:
    """Vectors in a tensor, or in however many of them."""
    for field in ("pooler_output", "last_hidden_state"):
        if getattr(made, field, None) is not None:
            return _rows(getattr(made, field))
    if isinstance(made, torch.Tensor):
        return made.numel() // max(1, made.shape[-1])
    if isinstance(made, (list, tuple)):
        parts = [_rows(part) for part in made]
        return None if None in parts else sum(part or 0 for part in parts)
    return None


def candidates(model: Any, name: str, number: int) -> Iterator[dict[str, Any]]:
    """Inputs for ``number`` images, videos or sounds in one sample, likeliest first."""
    names = arguments(model)
    shape = Shape(model.config, name)
    make = {"image": _images, "video": _videos, "audio": _sounds}[name]
    for inputs in make(shape, number, names):
        taken = {key: value for key, value in inputs.items() if key in names}
        if taken.keys() & set(_ARGUMENTS[name]):
            yield taken


def numbered(model: Any, name: str, number: int) -> dict[str, Any]:
    """The ``number``-th of `candidates` for one image, video or sound. Raises IndexError where
    there are fewer."""
    return list(candidates(model, name, 1))[number]


class Shape:
    """Sizes that a tower's config gives; plain defaults where it says nothing."""

    def __init__(self, config: Any, name: str) -> None:
        words = ("audio", "speech") if name == "audio" else ("vision", "vit", "visual")
        parts = _parts(config)
        own = [p for p in parts if any(word in str(getattr(p, "model_type", "")) for word in words)]
        named = [getattr(config, f"{word}_config", None) for word in words]
        given = [getattr(part, "model_args", None) for part in parts]  # arguments of a timm model
        timms = [types.SimpleNamespace(**told) for told in given if isinstance(told, dict)]
        self._order = [part for part in [*named, *own, *parts, *timms] if part is not None]
        self.patch = self.whole("patch_size", 14)
        self.side = self.whole("image_size", 0) or self.whole("img_size", self.patch * 8)
        self.across = self.side // self.patch
        self.channels = self.whole("num_channels", 0) or self.whole("in_channels", 3)
        high = getattr(config, "high_res_vision_config", None)
        self.high = getattr(high, "image_size", self.side)
        self.temporal = self.whole("temporal_patch_size", 0) or self.whole("patch_temporal", 1)
        self.merge = self.whole("spatial_merge_size", 0) or self.whole("merge_size", 2)
        self.tiles = self.whole("max_num_tiles", 4)
        self.mels = (
            self.whole("num_mel_bins", 0)
            or self.whole("input_feat_size", 0)
            or self.whole("input_dim", 80)
        )
        self.mels *= self.whole("num_stacked_frames", 1)
        self.positions = self.whole("max_source_positions", 48)
        self.samples = 10 * self.whole("hop_length", 3200)

    def whole(self, name: str, otherwise: int) -> int:
        for part in self._order:
            value = getattr(part, name, None)
            value = value[0] if isinstance(value, (list, tuple)) and value else value
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return otherwise


def _images(shape: Shape, number: int, names: frozenset[str]) -> Iterator[dict[str, Any]]:
    side, patch, channels = shape.side, shape.patch, shape.channels
    key = "pixel_values_images" if "pixel_values_images" in names else "pixel_values"
    sizes = torch.tensor([[side, side]] * number)
    if "image_grid_thw" in names or "image_grid_hws" in names:
        for pixels, grid in _patches(shape, number, frames=1):
            yield {
                key: pixels,
                "image_grid_thw": grid,
                "image_grid_hws": grid[:, 1:],
                "image_merge_sizes": torch.full((number,), shape.merge),
            }
    if "image_grid_hw" in names:
        across = 2 * shape.merge
        yield {
            key: torch.rand(number * across**2, channels * patch**2),
            "image_grid_hw": torch.tensor([[across, across]] * number),
        }
    if "image_token_pooling" in names:
        pixels, pooling = _crops(shape, 2 * number)
        across = shape.across // 2
        yield {
            key: pixels,
            "image_token_pooling": pooling,
            "image_grids": torch.tensor([[across] * 4] * number),
            "image_num_crops": torch.tensor([2] * number),
        }
    if "image_patches" in names:
        yield {"image_patches": torch.rand(1, number * 16, channels * patch**2)}
    if "aspect_ratio_ids" in names:
        mask = torch.zeros(1, number, shape.tiles, dtype=torch.long)
        mask[..., 0] = 1
        yield {
            key: torch.rand(1, number, shape.tiles, channels, side, side),
            "aspect_ratio_ids": torch.ones(1, number, dtype=torch.long),
            "aspect_ratio_mask": mask,
        }
    across = 4
    if "spatial_shapes" in names:
        yield {
            key: torch.rand(number, across**2, channels * patch**2),
            "spatial_shapes": torch.tensor([[across, across]] * number),
            "pixel_attention_mask": torch.ones(number, across**2, dtype=torch.long),
        }
    if "image_position_ids" in names:
        across = 6
        at = torch.stack(
            torch.meshgrid(torch.arange(across), torch.arange(across), indexing="xy"), -1
        )
        yield {
            key: torch.rand(number, across**2, channels * patch**2),
            "image_position_ids": at.reshape(1, -1, 2).repeat(number, 1, 1),
        }
    if "target_sizes" in names:
        yield {
            key: torch.rand(1, channels, patch, number * across**2 * patch),
            "target_sizes": torch.tensor([[across, across]] * number),
        }
    if "image_sizes" in names:
        yield {key: torch.rand(number, 2, channels, side, side), "image_sizes": sizes}
    stacked = torch.rand(number, channels, side, side)
    high = torch.rand(number, channels, shape.high, shape.high)
    yield {
        key: stacked,
        "image_sizes": sizes,
        "pixel_mask": torch.ones(number, side, side).bool(),
        "high_res_pixel_values": high,
    }
    yield {
        key: stacked[None],
        "pixel_attention_mask": torch.ones(1, number, side, side, dtype=torch.long),
        "image_sizes": sizes,
    }
    if "pixel_attention_mask" in names:  # a mask of tiles, not of pixels (Granite Docling)
        yield {key: stacked[None], "pixel_attention_mask": torch.ones(1, number).bool()}
    yield {key: stacked}
    # A row for each patch, without a grid (Inkling).
    yield {key: torch.rand(number * 16, shape.temporal, patch, patch, channels)}


def _videos(shape: Shape, number: int, names: frozenset[str]) -> Iterator[dict[str, Any]]:
    side, patch, key = shape.side, shape.patch, "pixel_values_videos"
    if "video_grid_thw" in names:
        for pixels, grid in _patches(shape, number, frames=1):
            yield {
                key: pixels,
                "video_grid_thw": grid,
                "video_merge_sizes": torch.full((number,), shape.merge),
                "second_per_grid_ts": torch.ones(number),
                "video_second_per_grid": torch.ones(number),
            }
    if "video_token_pooling" in names:
        pixels, pooling = _crops(shape, 2 * number)
        across = shape.across // 2
        yield {
            key: pixels,
            "video_token_pooling": pooling,
            "video_grids": torch.tensor([[2, across, across]] * number),
        }
    if "target_sizes_videos" in names:
        yield {
            key: torch.rand(1, shape.channels, patch, number * 16 * patch),
            "target_sizes_videos": torch.tensor([[4, 4]] * number),
        }
    if "video_position_ids" in names:
        at = torch.stack(torch.meshgrid(torch.arange(6), torch.arange(6), indexing="xy"), -1)
        at = at.reshape(1, 1, -1, 2)
        pixels = torch.rand(number, 2, 36, shape.channels * patch**2)
        yield {key: pixels, "video_position_ids": at.repeat(number, 2, 1, 1),
               "num_frames_per_video": torch.tensor([2] * number)}  # fmt: skip
    for frames in (2, 8):
        yield {key: torch.rand(number, frames, shape.channels, side, side)}


def _patches(shape: Shape, number: int, frames: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Patches one below the other, as the Qwen-VL family has them, and their grids."""
    across = 2 * shape.merge
    grid = torch.tensor([[frames, across, across]] * number)
    total, area = number * frames * across**2, shape.channels * shape.patch**2
    yield torch.rand(total, area * shape.temporal), grid
    yield torch.rand(total, area), grid
    yield torch.rand(total, shape.channels, shape.patch, shape.patch), grid
    yield torch.rand(1, total, shape.channels, shape.patch, shape.patch), grid
    # A square of patches for each token, and a grid that counts tokens (Inkling 2).
    square = shape.patch * shape.merge
    yield torch.rand(total, square, square, shape.channels), grid


def _crops(shape: Shape, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Flat patches of ``number`` square crops, and for each token the four patches that it pools,
    counted through all crops (Molmo 2)."""
    across, half = shape.across, shape.across // 2
    at = torch.arange(number * across**2).reshape(number, across, across)
    at = at[:, : 2 * half, : 2 * half].reshape(number, half, 2, half, 2)
    pooling = at.transpose(2, 3).reshape(-1, 4)
    return torch.rand(number, across**2, shape.channels * shape.patch**2), pooling


def _sounds(shape: Shape, number: int, names: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Log-mel features, two frames a position as Whisper has them; or a waveform."""
    for frames in (2 * shape.positions, 200):
        mask = torch.ones(number, frames, dtype=torch.long)
        masks = {
            "feature_attention_mask": mask,
            "input_features_mask": mask,
            "audio_feature_lengths": torch.tensor([frames] * number),
        }
        yield {"input_features": torch.rand(number, shape.mels, frames), **masks}
        yield {"input_features": torch.rand(number, frames, shape.mels), **masks}
    for frames in (2 * shape.positions, 200):
        yield {"input_features": torch.rand(number, frames, shape.mels)}
    wave = torch.rand(number, 1, 24000)
    yield {"input_values": wave, "padding_mask": torch.ones(number, 1, 24000).bool()}
    wave = torch.rand(number, 1, shape.samples)  # VibeVoice: the mask has no channel dimension
    yield {"input_values": wave, "padding_mask": torch.ones(number, shape.samples).bool()}
