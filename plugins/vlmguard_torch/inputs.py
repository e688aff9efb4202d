"""A blank image, video or audio for a model of transformers, from its config and modules alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from vlmguard_torch import crossing, towers
from vlmguard_torch.errors import CannotBlank

BLACK = -1.0
"""Every pixel. Not 0: LLaVA-NeXT's, Idefics' and others' processors pad with images of zeros, and
their models leave those out."""

Tensors = dict[str, torch.Tensor]


def from_config(model: Any, kind: str) -> Tensors:
    """The arguments of ``get_{kind}_features`` for one blank input, on the CPU, in fp32.

    model: the module that has that method. Raises `CannotBlank` with the reason.
    """
    if kind == "image" and crossing.is_crossing(model):
        return crossing.blank(model.config)
    method = getattr(type(model), f"get_{kind}_features", None)
    if method is None:
        raise CannotBlank(f"{type(model).__name__} has no get_{kind}_features")
    try:
        made = {"image": _image, "video": _video, "audio": _audio}[kind](model)
    except (AttributeError, TypeError, ValueError, IndexError, StopIteration) as error:
        raise CannotBlank(
            f"{type(model).__name__}'s config does not say enough: {error}"
        ) from error
    return made


def wanted(model: Any, kind: str) -> tuple[str, ...]:
    """Argument names of ``get_{kind}_features``."""
    return tuple(inspect.signature(getattr(type(model), f"get_{kind}_features")).parameters)[1:]


def _image(model: Any) -> Tensors:
    names = wanted(model, "image")
    if model.config.model_type == "llava":
        return _square(model)  # takes sizes for Pixtral's tower alone
    for needed, make in _IMAGES.items():
        if needed in names:
            return make(model)
    return _square(model)


def _vision(model: Any) -> Any:
    config = model.config
    for name in ("vision_config", "vit_config", "vision_tower_config", "vq_config"):
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    return config


def _first(config: Any, *names: str, default: Any = None) -> Any:
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    if default is None:
        raise CannotBlank(f"{type(config).__name__} has none of {', '.join(names)}")
    return default


def _side(value: Any) -> int:
    return int(value if isinstance(value, int) else max(value))


def _channels(vision: Any) -> int:
    return int(_first(vision, "in_channels", "num_channels", "in_chans", default=3))


def _square(model: Any) -> Tensors:
    """One image of the size that the tower was made for."""
    vision = _vision(model)
    side = _side(_first(vision, "image_size", "resolution"))
    return {_pixels(model): torch.full((1, _channels(vision), side, side), BLACK)}


def _pixels(model: Any) -> str:
    names = wanted(model, "image")
    return next(name for name in names if name.startswith(("pixel_values", "image_patches")))


def _grid(model: Any) -> Tensors:
    """One merged patch: pixels already cut in patches, and their grid (time, height, width)."""
    pixels, side = _patches(model, "image")
    return {"pixel_values": pixels, "image_grid_thw": torch.tensor([[1, side, side]])}


def _patches(model: Any, kind: str) -> tuple[torch.Tensor, int]:
    vision = _vision(model)
    merge = _side(_first(vision, "spatial_merge_size", "merge_kernel_size", default=2))
    patch = _side(vision.patch_size)
    layer = _patch_layer(model)
    number = merge * merge
    if isinstance(layer, torch.nn.Linear):
        return torch.full((number, layer.in_features), BLACK), merge
    channels = _channels(vision)
    if isinstance(layer, torch.nn.Conv2d) and not _flattens(model):
        return torch.full((number, channels, patch, patch), BLACK), merge
    time = layer.kernel_size[0] if isinstance(layer, torch.nn.Conv3d) else 1
    return torch.full((number, channels * time * patch * patch), BLACK), merge


def _patch_layer(model: Any) -> Any:
    """The layer that takes the pixels: its sizes are known where its weight is partitioned."""
    for path in towers.by_name(model).get("vision", ()):
        for name, module in model.get_submodule(path).named_modules():
            kinds = (torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.Linear)
            if "patch_embed" in name and isinstance(module, kinds):
                return module
    raise CannotBlank(f"{type(model).__name__} has no patch embedding that is known")


def _flattens(model: Any) -> bool:
    """Whether a Conv2d patch embedding reshapes flat patches itself."""
    for path in towers.by_name(model).get("vision", ()):
        for name, module in model.get_submodule(path).named_modules():
            if name.rsplit(".", 1)[-1] == "patch_embed" and len(list(module.children())):
                source = inspect.getsource(type(module).forward)
                return ".view(" in source or ".reshape(" in source
    return False


def _packed(model: Any) -> Tensors:
    """MiniCPM-V: patches side by side in one row; two mergers of 2 x 2 come behind each other."""
    vision = _vision(model)
    patch, side = _side(vision.patch_size), 4
    pixels = torch.full((1, _channels(vision), patch, patch * side * side), BLACK)
    return {"pixel_values": pixels, "target_sizes": torch.tensor([[side, side]])}


def _tiled(model: Any) -> Tensors:
    """LLaVA-NeXT and its kin: a whole image and its tiles, of the smallest size that has tiles."""
    points = getattr(model.config, "image_grid_pinpoints", None)
    vision = _vision(model)
    if not points:
        return _sized(model)
    height, width = min(points, key=lambda point: point[0] * point[1])
    side = _side(vision.image_size)
    tiles = 1 + (height // side) * (width // side)
    pixels = torch.full((1, tiles, _channels(vision), side, side), BLACK)
    return {"pixel_values": pixels, "image_sizes": torch.tensor([[height, width]])}


def _sized(model: Any) -> Tensors:
    """Pixtral: any size in whole merged patches, and that size."""
    vision = _vision(model)
    merge = _side(_first(model.config, "spatial_merge_size", default=1))
    side = _side(vision.patch_size) * merge
    pixels = torch.full((1, _channels(vision), side, side), BLACK)
    return {"pixel_values": pixels, "image_sizes": torch.tensor([[side, side]])}


def _of_samples(model: Any) -> Tensors:
    """Idefics: (samples, images, channels, height, width)."""
    return {name: value[None] for name, value in _square(model).items()}


def _spatial(model: Any) -> Tensors:
    """SigLIP 2: flat patches with a mask and their height and width."""
    vision = _vision(model)
    side = 2 * int(_first(model.config, "downsample_factor", default=1))
    depth = _channels(vision) * _side(vision.patch_size) ** 2
    number = side * side
    return {
        "pixel_values": torch.full((1, number, depth), BLACK),
        "spatial_shapes": torch.tensor([[side, side]]),
        "pixel_attention_mask": torch.ones(1, number, dtype=torch.long),
    }


_IMAGES: dict[str, Callable[[Any], Tensors]] = {
    "image_grid_thw": _grid,
    "target_sizes": _packed,
    "spatial_shapes": _spatial,
    "pixel_attention_mask": _of_samples,
    "image_sizes": _tiled,
}
"""An argument of ``get_image_features`` → who makes what goes with it; the first that fits."""


def _video(model: Any) -> Tensors:
    raise CannotBlank("no blank video yet")


def _audio(model: Any) -> Tensors:
    raise CannotBlank("no blank audio yet")
