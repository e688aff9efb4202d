"""The run that is being trained, for this process and, by environment, its dataloader workers."""

from __future__ import annotations

import functools
import os

from vlmguard.core import settings
from vlmguard.core.facts import Run, run_as_json, run_from_json

_KEY = "VLMGUARD_RUN"
COMPLETE = "VLMGUARD_COMPLETE"  # the plan's dummy image


def publish(run: Run) -> None:
    """Make ``run`` known here and in processes started from now on."""
    os.environ[_KEY] = run_as_json(run)


def clear() -> None:
    """Forget the run: another trainer may follow in this process."""
    os.environ.pop(_KEY, None)
    os.environ.pop(COMPLETE, None)


def completes() -> bool:
    """Whether a forward without an image gets a dummy one."""
    return os.environ.get(COMPLETE) == "1"


def run() -> Run | None:
    """The run that is being trained, None before and after."""
    text = os.environ.get(_KEY)
    return _read(text) if text else None


@functools.lru_cache(maxsize=4)
def _read(text: str) -> Run:
    return run_from_json(text)


_WORDS = {"vit": "vision", "visual": "vision", "projector": "aligner", "language": "llm"}


def freeze_wish() -> tuple[str, ...]:
    """The freeze wish, with the field's other words for towers read as ours."""
    return tuple(_WORDS.get(word.lower(), word) for word in settings.get().freeze)
