"""DDP's static graph together with gradient accumulation.

What it does
    Fires under DDP with `static_graph=True` and more than one micro-batch a step, where the
    compatibility tables hold a failure for it.

Why it is bad
    Micro-batches before the last run without reduction, which the static graph's bookkeeping
    does not allow: `expect_autograd_hooks_ INTERNAL ASSERT FAILED` at the first step.

When it is wrong
    The table decides; without accumulation the static graph is right.

Example
    --ddp_static_graph true --gradient_accumulation_steps 2

Use instead
    find_unused_parameters with non-reentrant checkpointing, or no accumulation.

Evidence
    compat/verdicts.toml: every release set in which it was run, torch 2.2 - 2.15. Own
    measurement: 2 gloo ranks on CPU.
"""

from __future__ import annotations

from vlmguard.compat import choice as compat
from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, StaticGraph
from vlmguard.core.hookspecs import hookimpl

CODE = "VG109"
NAME = "static-graph-accumulation"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if run.strategy != "ddp" or not run.static_graph or run.accumulation < 2:
        return None
    choice = compat.choose(run)
    if choice.static_graph is not False:
        return None
    return Finding(
        CODE,
        "error",
        "DDP's static graph fails with gradient accumulation: an internal assertion at the first "
        "step",
        remedies=(Choose(),),
        advice=(StaticGraph(False), "no accumulation"),
        evidence=choice.evidence,
    )
