"""A trainable tower that a batch can leave unused.

What it does
    Fires where vision or aligner train, a batch without an image does not run them, and DDP
    does not look for unused parameters or ZeRO / FSDP waits for all ranks. An error where
    the data hold both kinds, else a note.

Why it is bad
    One rank has an image and another only text: under DDP they wait for each other's
    reduction for ever, under ZeRO the collectives no longer match. In one process, too, DDP
    fails at the step after it: `Expected to have finished reduction`.

When it is wrong
    Where all batches have images nothing breaks; looking for unused parameters then costs a
    walk of the graph per step and changes no bit.

Example
    Qwen3-VL, full, --freeze_vit false --freeze_aligner false, mixed data, plain DDP

Use instead
    --ddp_find_unused_parameters true under DDP; a dummy image in text-only batches under
    ZeRO; or freeze the tower.

Evidence
    deepspeedai/DeepSpeed#7170, huggingface/transformers#37186; ms-swift 4.6.0. Own
    measurement: 2 gloo ranks on CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import ZERO, Run
from vlmguard.core.findings import Choose, DummyImage, Finding, Wish
from vlmguard.core.hookspecs import hookimpl

CODE = "VG106"
NAME = "idle-tower"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if run.idle == "no" or run.completing or not run.sees:
        return None
    remedies: tuple[Wish, ...]
    if run.strategy == "ddp":
        if run.find_unused is not False:  # a static graph does not help: records of the lab
            return None
        remedies = (Choose(),)
    elif run.strategy in ZERO:
        if run.world < 2:
            return None
        remedies = (DummyImage(),) if run.completes else ()
    else:
        return None
    kinds = " and ".join(tower.kind for tower in run.sees)
    certain = run.idle == "yes" and bool(remedies)
    when = "when" if run.idle == "yes" else "if"
    breaks = (
        f"ranks hang {when} one has an image and another has none"
        if run.world > 1
        else "DDP fails at the step after it, also in one process"
    )
    return Finding(
        CODE,
        "error" if certain else "note",
        f"{kinds} train, but a batch without an image does not use them: {breaks}",
        remedies=remedies,
        advice="--ddp_find_unused_parameters true, a dummy image, or freeze them",
        evidence="own runs: ms-swift 4.6.0 Qwen3-VL under DDP hangs; ZeRO-1/2/3 mismatch",
    )
