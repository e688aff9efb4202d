"""The dummy image of a model that transformers knows, from its config alone: where a model was made
in memory there is no folder to find its processor in."""

from __future__ import annotations

from typing import Any

import torch

from vlmguard_colossalai.dummy import Block, CannotComplete


def build(family: Any, config: Any) -> Block:
    """The smallest image that the model takes. Raises `CannotComplete` for one it cannot tell."""
    makers = {"qwen_vl": _qwen_vl, "llava": _llava}
    maker = makers.get(getattr(family, "name", ""))
    if maker is None:
        raise CannotComplete("no processor is known: guard_booster(booster, processor=…)")
    try:
        return maker(config)
    except (AttributeError, TypeError) as error:
        raise CannotComplete(f"no processor is known, and its config lacks: {error}") from error


def _qwen_vl(config: Any) -> Block:
    """One merged patch: one token between the two that frame an image."""
    vision = config.vision_config
    side = vision.spatial_merge_size
    channels = getattr(vision, "in_channels", None) or getattr(vision, "in_chans", 3)
    depth = channels * vision.temporal_patch_size * vision.patch_size**2
    frame = (getattr(config, f"vision_{end}_token_id", None) for end in ("start", "end"))
    start, end = ([token] if isinstance(token, int) else [] for token in frame)
    visual = {
        "pixel_values": torch.zeros(side * side, depth),
        "image_grid_thw": torch.tensor([[1, side, side]]),
    }
    return _block([*start, config.image_token_id, *end], config.image_token_id, visual)


def _llava(config: Any) -> Block:
    """LLaVA-1.5; LLaVA-NeXT cuts images into parts that its processor alone knows."""
    if config.model_type != "llava":
        raise CannotComplete("no processor is known: guard_booster(booster, processor=…)")
    vision = config.vision_config
    number = (vision.image_size // vision.patch_size) ** 2
    number += getattr(config, "vision_feature_select_strategy", "default") == "full"
    token = getattr(config, "image_token_id", None) or config.image_token_index
    channels = getattr(vision, "num_channels", 3)
    pixels = torch.zeros(1, channels, vision.image_size, vision.image_size)
    return _block([token] * number, token, {"pixel_values": pixels})


def _block(ids: list[int], image: int, visual: dict[str, torch.Tensor]) -> Block:
    tokens = torch.tensor([ids])
    return Block(
        {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "mm_token_type_ids": (tokens == image).to(tokens.dtype),  # for transformers 5
        },
        visual,
    )
