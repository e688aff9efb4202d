"""A rule of a third party in a drawn run, which counts the batches that it gets by their phase."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

_counted: Counter[str] = Counter()


def listen() -> None:
    """Add the rule to this process's own."""
    from vlmguard import hookimpl, registry

    def pre_step(run: Any, batch: Any, gradients: Any) -> None:
        if batch is not None:
            _counted[batch.phase] += 1

    about = {"CODE": "ZZ901", "NAME": "heard", "DEFAULT": "warn", "__name__": __name__}
    phases = ("train", "eval", "generate")
    registry.get().add(SimpleNamespace(**about, PHASES=phases, pre_step=hookimpl(pre_step)))


def told() -> dict[str, int]:
    """Batches by phase."""
    return dict(_counted)
