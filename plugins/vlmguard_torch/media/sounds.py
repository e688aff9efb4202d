"""A blank audio: silence, as log-mel features."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from vlmguard_torch.errors import CannotBlank
from vlmguard_torch.layout import features
from vlmguard_torch.layout.config import first

FRAMES = 400
"""Four seconds: enough for every window that towers of any length cut their input in."""


def blank(model: Any) -> dict[str, torch.Tensor]:
    """The arguments of ``get_audio_features``."""
    names = inspect.signature(features.of(model, "audio")).parameters
    if "input_features" not in names:
        raise CannotBlank(f"{type(model).__name__} takes no mel features")
    config = first(model.config, "audio_config", "encoder_config")
    mels = int(first(config, "num_mel_bins", "input_feat_size", "n_mels"))
    if "feature_attention_mask" in names:  # Qwen-Omni takes any length within its positions
        frames = min(FRAMES, 2 * int(getattr(config, "max_source_positions", FRAMES)))
        return {**_of(mels, frames), "feature_attention_mask": _all(frames)}
    if "input_features_mask" not in names:
        # Whisper's encoder takes two frames for each position, and always all of them.
        return _of(mels, 2 * int(first(config, "max_source_positions")))
    frames = 2 * int(getattr(config, "max_source_positions", FRAMES // 2))
    return {**_of(mels, frames), "input_features_mask": _all(frames)}


def _of(mels: int, frames: int) -> dict[str, torch.Tensor]:
    return {"input_features": torch.zeros(1, mels, frames)}


def _all(frames: int) -> torch.Tensor:
    return torch.ones(1, frames, dtype=torch.long)
