"""What was to be frozen still trains.

What it does
    Compares the freeze policy (towers or name patterns) with what requires a gradient before
    wrap.

Why it is bad
    PEFT matches names and ignores freezing; a framework's freeze flag leaves the aligner out.

When it is wrong
    A freeze policy only ever removes trainability. It wins over a framework flag that says the
    opposite, and says so.

Example
    --vlmguard-freeze vision beside a framework flag that trains it

Use instead
    Nothing: it is enforced. `--vlmguard-freeze none` removes the freeze setting.

Evidence
    haotian-liu/LLaVA#1647, huggingface/peft#2250. Own measurement: 2 gloo ranks on CPU,
    torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, Freeze, listed, tail
from vlmguard.core.hookspecs import hookimpl

CODE = "VG301"
NAME = "freeze-wish"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if not run.freeze or not run.unfrozen:
        return None
    flags = list(run.conflicting_flags)
    by = f"; by {', '.join(flags)}" if flags else ""
    such = f" ({listed(flags, 1)})" if flags else f": {tail(run.unfrozen_example, 32)}"
    return Finding(
        CODE,
        "error",
        f"freeze = {list(run.freeze)}, but {run.unfrozen} of these tensors would train{such}",
        remedies=(Freeze(run.freeze),),
        advice="set freeze = none to train them (--vlmguard-freeze none)",
        evidence=f"would train: {run.unfrozen_example}{by}",
    )
