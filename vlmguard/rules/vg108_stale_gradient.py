"""ZeRO-3 and a step that leaves a trainable tower unused.

What it does
    Fires if vision, audio or aligner train under ZeRO-3 and a batch can leave them unused. It is
    an error if the data hold rows with images (or sounds) and rows without, else a note.

Why it is bad
    DeepSpeed does not clear the tower's partition buffer. A step without an image applies the
    gradient of the last step with an image again: twice the update, exit 0.

When it is wrong
    If every step has an image on some rank, no gradient is applied twice.

Example
    LLaVA-1.5, zero3, vision and aligner train, an image step, then a text step

Use instead
    A blank image in text-only batches, or ZeRO-2.

Evidence
    deepspeed stage3.py independent_gradient_partition_epilogue, silent 0.15.3 - 0.19.8. Own
    measurement: 2 gloo ranks on CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, PadWithBlank, Strategy
from vlmguard.core.hookspecs import hookimpl

CODE = "VG108"
NAME = "stale-gradient"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if (
        run.strategy != "zero3"
        or run.pads
        or run.skips_in_training == "no"
        or not run.trained_towers
    ):
        return None
    certain = run.skips_in_training == "yes" and run.known("may_be_unused")
    why = "DeepSpeed will apply the gradient of the last step with one again"
    return Finding(
        CODE,
        "error" if certain else "note",
        f"in a step without {run.medium} {why}"
        if certain
        else f"if a step is without {run.medium}, {why}",
        remedies=(PadWithBlank(),) if run.can_pad else (),
        advice=(PadWithBlank(), Strategy("zero2")),
        evidence="own runs, deepspeed 0.15.3 - 0.19.8: the update is applied twice",
    )
