"""Read sizes from the config of a model of transformers, whatever they are called."""

from __future__ import annotations

from typing import Any

from vlmguard_torch.errors import CannotBlank

BLACK = -1.0
"""Every pixel. Not 0: LLaVA-NeXT's, Idefics' and others' processors pad with images of zeros, and
their models leave those out."""


def vision(config: Any) -> Any:
    """The config of the vision tower."""
    for name in ("vision_config", "vit_config", "vision_tower_config", "vq_config"):
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    return config


def first(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these that the config has. Raises `CannotBlank` where there is no default."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    if default is None:
        raise CannotBlank(f"{type(config).__name__} has none of {', '.join(names)}")
    return default


def side(value: Any) -> int:
    """The side of a square that may be given twice."""
    return int(value if isinstance(value, int) else max(value))


def channels(seen: Any) -> int:
    """Colours of a pixel."""
    return int(first(seen, "in_channels", "num_channels", "in_chans", default=3))
