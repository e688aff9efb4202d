"""Reentrant checkpointing with find_unused_parameters=False.

What it does
    Fires where the user set find_unused_parameters=False under DDP with reentrant
    checkpointing, the community's way round "ready only once". An error where one backward
    has two forwards or a tower runs twice, else a note.

Why it is bad
    It hides the crash: with two forwards before one backward the run exits 0 while the
    ranks drift apart. A tower that runs twice does the same where all that trains lies in
    checkpointed blocks; where its aligner trains too, DDP fails all the same.

When it is wrong
    With one forward and full use of every module it is right; the change to non-reentrant
    changes no bit.

Example
    FlagEmbedding embedder, LoRA, --ddp_find_unused_parameters False

Use instead
    use_reentrant=False.

Evidence
    FlagEmbedding 1.4.2: sum of |trainable| 343.0628 on one rank, 343.0983 on the other. Own
    measurement: 2 gloo ranks on CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, SetVariant
from vlmguard.core.hookspecs import hookimpl

CODE = "VG107"
NAME = "find-unused-hides"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    checkpointing = run.checkpointing
    if run.strategy != "ddp" or run.find_unused is not False or run.static_graph:
        return None
    if not (checkpointing.on and checkpointing.use_reentrant):
        return None
    drifts = (run.forwards > 1 or run.repeats == "yes") and run.world > 1
    return Finding(
        CODE,
        "error" if drifts else "note",
        "DDP would crash or let the ranks' weights differ: reentrant checkpointing, "
        "find_unused_parameters=False"
        if drifts
        else "if a module ran twice the ranks would drift apart: reentrant checkpointing, "
        "find_unused_parameters=False"
        if run.world > 1
        else "find_unused_parameters=False avoids the crash of reentrant checkpointing",
        remedies=(Choose(),),
        advice=(SetVariant(False),),
        evidence="own runs, FlagEmbedding 1.4.2: ranks end with different weights, exit 0",
    )
