"""What was to be frozen still trains.

What it does
    Compares the freeze wish (towers or name patterns) with what requires a gradient before
    wrap.

Why it is bad
    PEFT matches names and ignores freezing; --freeze_vit leaves the aligner out; the wish
    is silently not met.

When it is wrong
    A wish only ever removes trainability. It wins over a framework flag that says the
    opposite, and says so.

Example
    swift sft --vlmguard-freeze vision --freeze_vit false

Use instead
    Nothing: it is enforced. `--vlmguard-freeze none` clears the wish.

Evidence
    haotian-liu/LLaVA#1647, huggingface/peft#2250. Own measurement: 2 gloo ranks on CPU,
    torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, Freeze
from vlmguard.core.hookspecs import hookimpl

CODE = "VG301"
NAME = "freeze-wish"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if not run.freeze or not run.frees:
        return None
    defied = f", against {', '.join(run.defied)}" if run.defied else ""
    return Finding(
        CODE,
        "error",
        f"freeze = {list(run.freeze)} is not obeyed: {run.frees} parameters train, such as "
        f"{run.frees_example}{defied}",
        remedies=(Freeze(run.freeze),),
        advice="--vlmguard-freeze none clears the wish",
    )
