"""The scale that a loss was multiplied by: seen on the way to the optimizer's step."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

_FILE = ("grad_scaler.py", "grad_scaler_sharded.py", "sharded_grad_scaler.py")


def scaler() -> Any:
    """The GradScaler whose `step` is calling; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_FILE) and "self" in frame.f_code.co_varnames:
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def scale_of(optimizer: Any) -> Any:
    """What gradients were multiplied by and have been divided by again; None where neither was.

    A fused optimizer of torch's divides in its own step: there, and under DeepSpeed, both sides
    carry the scale.
    """
    found = scaler()
    scale = getattr(found, "_scale", None)
    if scale is None or getattr(optimizer, "_step_supports_amp_scaling", False):
        return None
    return scale.detach().clone()
