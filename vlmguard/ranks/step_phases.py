"""Phases of a step that a Trainer drives: the functions that every one of them comes through.

The lab's own step says its phases itself. Here they are told by wrapping, in a rank's process,
functions of packages that are loaded already; what a release lacks is left out.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

from vlmguard.ranks.collective_calls import phase

POINTS = (
    ("transformers.trainer", "Trainer", "training_step", "forward", "step"),
    ("transformers.trainer", "Trainer", "evaluate", "evaluation", "after"),
    ("accelerate", "Accelerator", "backward", "backward", "step"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "backward", "backward", "step"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "step", "step", "after"),
    ("torch", "Tensor", "backward", "backward", "step"),
)
"""Module, class, method, and the phases that begin before and after it."""


def told_by(points: Sequence[tuple[str, str, str, str, str]] = POINTS) -> list[str]:
    """Tell phases from now on, in this process. Returns the names of what was wrapped."""
    wrapped = []
    for module, name, method, before, after in points:
        owner = getattr(sys.modules.get(module), name, None)
        function = getattr(owner, method, None)
        if function is None or hasattr(function, "tells_phase"):
            continue
        setattr(owner, method, _telling(function, before, after))
        wrapped.append(f"{name}.{method}")
    return wrapped


def _telling(function: Any, before: str, after: str) -> Any:
    @functools.wraps(function)
    def told(*args: Any, **named: Any) -> Any:
        phase(before)
        try:
            return function(*args, **named)
        finally:
            phase(after)

    told.tells_phase = True  # type: ignore[attr-defined]
    return told
