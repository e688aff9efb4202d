"""The ledger: the first real steps, followed from the rows to the weights.

A training step is kept like an account. At each station what comes in must equal what went out, so
that a wrong update is told whatever its cause. This package is pure: it gets the numbers that
`vlmguard_torch.ledger` read, and returns verdicts. It imports no torch.
"""

from __future__ import annotations

from typing import Any


def watch(model: Any, optimizer: Any, **options: Any) -> Any:
    """Keep the books of a training loop of your own: call it once, before the first step.

    ``model`` and ``optimizer`` may be wrapped by DDP, FSDP2, DeepSpeed or accelerate. Returns a
    watcher, whose ``close()`` ends it early, or None where nothing can be watched. For options see
    `vlmguard_torch.ledger.start.watch`.
    """
    import importlib

    start = importlib.import_module("vlmguard_torch.ledger.start")
    return start.watch(model, optimizer, **options)
