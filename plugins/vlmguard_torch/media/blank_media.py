"""A blank image, video or audio for a model of transformers, from its config and modules alone.

What a model takes is told by the arguments of its ``get_image_features``: 98 files of transformers
have one, and few ways to hand over pixels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from vlmguard_torch.errors import CannotBlank
from vlmguard_torch.layout import cross_attention, features, towers
from vlmguard_torch.layout.config import BLACK, channels, first, side, vision
from vlmguard_torch.media import kinds, sounds

Tensors = dict[str, torch.Tensor]


def from_config(model: Any, kind: str) -> Tensors:
    """The arguments of ``get_{kind}_features`` for one blank input, on the CPU, in fp32.

    For a video in a model whose image tower sees videos too: those of ``get_image_features``.
    model: the module that has that method. Raises `CannotBlank` with the reason.
    """
    if kind == "image" and cross_attention.is_crossing(model):
        return cross_attention.blank(model.config)
    name = type(model).__name__
    if not features.known(model, kind):
        raise CannotBlank(f"{name} has no get_{kind}_features")
    try:
        return _MAKERS[kind](model)
    except (AttributeError, TypeError, ValueError, IndexError, StopIteration) as error:
        raise CannotBlank(f"the config of {name} does not say enough: {error}") from error


def fit(model: Any, kind: str, made: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``made`` goes to the method, and what else it asks of the config (the feature layer,
    before transformers 4.52). Raises `CannotBlank` where something is lacking."""
    if cross_attention.is_crossing(model):
        return dict(made)
    known = arguments(model, method(model, kind, made).__name__.split("_")[1])
    told = {name: value for name, value in made.items() if name in known}
    for name, needed in known.items():
        if needed and name not in told:
            if not hasattr(model.config, name):
                raise CannotBlank(f"{type(model).__name__} wants {name}, which is not known")
            told[name] = getattr(model.config, name)
    return told


def emptied(inputs: Mapping[str, torch.Tensor]) -> Tensors:
    """Inputs of the same shapes with nothing to see or hear in them."""
    empty = {"image": BLACK, "video": BLACK, "audio": 0.0}
    found = dict(inputs)
    for name, value in inputs.items():
        (kind, *_) = kinds.kinds_of({name: value})
        if kind in empty and value.is_floating_point():
            found[name] = torch.full_like(value, empty[kind])
    return found


_OPTIONS = (str, int, float, list, tuple)


def options(method: Callable[..., Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a forward was asked that is no tensor and that ``method`` takes as well."""
    if not asked:
        return {}
    known = inspect.signature(method).parameters
    return {k: v for k, v in asked.items() if k in known and isinstance(v, _OPTIONS)}


def method(model: Any, kind: str, made: Mapping[str, Any]) -> Callable[..., Any]:
    """The method that takes ``made``: `kind`'s own, or the image's for a video."""
    if kind == "video" and not any("video" in name for name in made):
        kind = "image"
    return features.of(model, kind)


def arguments(model: Any, kind: str) -> dict[str, bool]:
    """Argument of ``get_{kind}_features`` → whether it has to be given."""
    told = inspect.signature(features.of(model, kind)).parameters
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        name: parameter.default is parameter.empty
        for name, parameter in told.items()
        if parameter.kind in named
    }


def _image(model: Any) -> Tensors:
    names = arguments(model, "image")
    if model.config.model_type == "llava":
        return _square(model)  # it takes sizes only for Pixtral's tower
    for needed, make in _IMAGES.items():
        if needed in names:
            return make(model)
    return _square(model)


def _square(model: Any) -> Tensors:
    """One image of the size that the tower was made for."""
    seen = vision(model.config)
    size = side(first(seen, "image_size", "resolution"))
    names = arguments(model, "image")
    name = next(name for name in names if name.startswith("pixel_values"))
    return {name: torch.full((1, channels(seen), size, size), BLACK)}


def _grid(model: Any) -> Tensors:
    """One merged patch: pixels already cut in patches, and their grid (time, height, width)."""
    seen = vision(model.config)
    merge = side(first(seen, "spatial_merge_size", "merge_size", "merge_kernel_size", default=2))
    pixels = _patches(model, merge * merge)
    told = {"pixel_values": pixels, "image_grid_thw": torch.tensor([[1, merge, merge]])}
    if "image_merge_sizes" in arguments(model, "image"):
        told["image_merge_sizes"] = torch.tensor([merge])
    return told


def _patches(model: Any, number: int) -> torch.Tensor:
    seen = vision(model.config)
    patch, colours = side(seen.patch_size), channels(seen)
    parent, layer = _patch_layer(model)
    if isinstance(layer, torch.nn.Linear):
        return torch.full((number, layer.in_features), BLACK)
    if isinstance(layer, torch.nn.Conv2d) and not _flattened(parent, layer):
        return torch.full((number, colours, patch, patch), BLACK)
    time = layer.kernel_size[0] if isinstance(layer, torch.nn.Conv3d) else 1
    return torch.full((number, colours * time * patch * patch), BLACK)


def _patch_layer(model: Any) -> tuple[Any, Any]:
    """The layer that takes the pixels, and the module that calls it: their sizes are known where
    weights are partitioned."""
    kinds = (torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.Linear)
    for name, module in _in_towers(model):
        if "patch_embed" in name and isinstance(module, kinds):
            return _parent(model, name), module
    raise CannotBlank(f"{type(model).__name__} has no patch embedding that is known")


def _in_towers(model: Any) -> Iterator[tuple[str, Any]]:
    for path in towers.seeing(model).get("vision", ()):
        for name, module in model.get_submodule(path).named_modules():
            yield f"{path}.{name}", module


def _parent(model: Any, name: str) -> Any:
    return model.get_submodule(name.rsplit(".", 1)[0])


def _flattened(parent: Any, layer: Any) -> bool:
    """Whether ``parent`` makes squares of flat patches before it hands them to ``layer``."""
    source = inspect.getsource(type(parent).forward)
    name = next(name for name, child in parent.named_children() if child is layer)
    call = source.find(f"self.{name}(")
    shaped = min((at for at in map(source.find, (".view(", ".reshape(")) if at >= 0), default=-1)
    return 0 <= shaped < call


def _packed(model: Any) -> Tensors:
    """MiniCPM-V: patches side by side in one row; two mergers of 2 x 2 come behind each other."""
    seen = vision(model.config)
    patch, number = side(seen.patch_size), 4
    pixels = torch.full((1, channels(seen), patch, patch * number * number), BLACK)
    return {"pixel_values": pixels, "target_sizes": torch.tensor([[number, number]])}


def _tiled(model: Any) -> Tensors:
    """LLaVA-NeXT and its kin: a whole image and its tiles, of the smallest size that has tiles."""
    points = getattr(model.config, "image_grid_pinpoints", None)
    if not points:
        return _sized(model)
    seen = vision(model.config)
    height, width = min(points, key=lambda point: point[0] * point[1])
    size = side(seen.image_size)
    tiles = 1 + (height // size) * (width // size)
    pixels = torch.full((1, tiles, channels(seen), size, size), BLACK)
    return {"pixel_values": pixels, "image_sizes": torch.tensor([[height, width]])}


def _sized(model: Any) -> Tensors:
    """Pixtral: any size in whole merged patches, and that size."""
    seen = vision(model.config)
    size = 2 * side(seen.patch_size) * side(first(model.config, "spatial_merge_size", default=1))
    pixels = torch.full((1, channels(seen), size, size), BLACK)
    return {"pixel_values": pixels, "image_sizes": torch.tensor([[size, size]])}


def _of_samples(model: Any) -> Tensors:
    """Idefics: (samples, images, channels, height, width)."""
    return {name: value[None] for name, value in _square(model).items()}


def _spatial(model: Any) -> Tensors:
    """SigLIP 2: flat patches with a mask and their height and width."""
    seen = vision(model.config)
    number = 2 * int(first(model.config, "downsample_factor", default=1))
    depth = channels(seen) * side(seen.patch_size) ** 2
    return {
        "pixel_values": torch.full((1, number * number, depth), BLACK),
        "spatial_shapes": torch.tensor([[number, number]]),
        "pixel_attention_mask": torch.ones(1, number * number, dtype=torch.long),
    }


def _two_sizes(model: Any) -> Tensors:
    """DeepSeek-VL: the same image for two towers."""
    seen = model.config.high_res_vision_config
    size = side(seen.image_size)
    pixels = torch.full((1, channels(seen), size, size), BLACK)
    return {**_square(model), "high_res_pixel_values": pixels}


_IMAGES: dict[str, Callable[[Any], Tensors]] = {
    "image_grid_thw": _grid,
    "target_sizes": _packed,
    "spatial_shapes": _spatial,
    "pixel_attention_mask": _of_samples,
    "image_sizes": _tiled,
    "high_res_pixel_values": _two_sizes,
}
"""An argument of ``get_image_features`` → who makes what goes with it; the first that fits."""


def _video(model: Any) -> Tensors:
    """An image, where one tower sees both; VideoLLaVA has two."""
    if not any("video" in path for path in towers.seeing(model).get("vision", ())):
        return _image(model)
    ((_, picture),) = _square(model).items()
    return {"pixel_values_videos": picture[None].expand(1, 8, *picture.shape[1:]).clone()}


_MAKERS: dict[str, Callable[[Any], Tensors]] = {
    "image": _image,
    "video": _video,
    "audio": sounds.blank,
}
