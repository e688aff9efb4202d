"""The three hooks. A plug-in implements any of them with ``@vlmguard.hookimpl``.

Each may return a `Finding`, a list of findings, or None. Implementations run contained: one that
raises is reported once (VG902) and the run goes on.
"""

from __future__ import annotations

import pluggy

from vlmguard.core.facts import Batch, Failure, Gradients, Run
from vlmguard.core.findings import Finding

hookspec = pluggy.HookspecMarker("vlmguard")
hookimpl = pluggy.HookimplMarker("vlmguard")

Answer = Finding | list[Finding] | None


@hookspec
def pre_wrap(run: Run) -> Answer:
    """Arguments parsed, model built, before DDP / DeepSpeed / FSDP / Gemini wraps it.

    No collective may be called here: a rank that is contained alone would hang the others.
    """


@hookspec
def pre_step(run: Run, batch: Batch | None, gradients: Gradients | None) -> Answer:
    """One of the two is None. Each batch of training and evaluation once, before forward (it may be
    in a dataloader worker, ahead of time); the gradients of the windows that are watched, after
    backward, before the optimizer.
    """


@hookspec
def on_error(run: Run | None, batch: Batch | None, failure: Failure) -> Answer:
    """An exception leaves training. What is returned is shown under the traceback."""
