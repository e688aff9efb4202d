"""A tower that runs once per image, where each run of it gathers weights.

What it does
    Before the first step, vlmguard counts on a small copy how often a tower runs. If it runs once
    for each image under ZeRO-3 or FSDP, a note says that all ranks need the same number of
    images. If each call gathers weights, each rank also writes its number of calls into the
    rendezvous store. The run is stopped in the first forward in which two ranks differ. No rank
    waits for another rank while it compares.

Why it is bad
    Each call of the tower gathers its weights from all ranks. A rank with two images gathers
    twice, one with a single image once: the ranks wait for each other for ever. A blank image
    is one call, so a batch of text fits only beside batches of one image.

When it is wrong
    If all batches hold the same number of images, nothing breaks. Some weights are not gathered at
    each call: those that ZeRO-3 keeps on every rank (below stage3_param_persistence_threshold),
    and those of a tower that FSDP did not wrap by itself. Then no rank waits, and nothing is
    compared. Without a store (torchrun's, or that of init_process_group) nothing is compared
    either.

Example
    MiniCPM-V's merger, ZeRO-3, rows with one and with two images

Use instead
    Rows with the same number of images in every batch of every rank, or ZeRO-2: it gathers
    nothing in forward.

Evidence
    Own measurement: a Qwen2-VL whose tower takes images apart, ZeRO-3, deepspeed 0.19.8, 2 gloo
    ranks on CPU, torch 2.13.0. For FSDP this was not run: it follows from how FSDP gathers.
"""

from __future__ import annotations

from vlmguard.core.facts import PARTITIONED, Run
from vlmguard.core.findings import Finding, SameImages, Strategy, tail
from vlmguard.core.hookspecs import hookimpl

CODE = "VG113"
NAME = "per-image-tower"
DEFAULT = "error"
PHASES = ("train", "eval")


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if run.strategy not in PARTITIONED or run.world < 2 or not run.per_image:
        return None
    one_each = run.rows and set(run.rows) | set(run.eval_rows) == {"text"}
    if one_each or not run.known("per_image"):
        return None
    return Finding(
        CODE,
        "note",
        f"under {run.strategy} ranks with different numbers of images hang: "
        f"{tail(run.per_image[0], 28)} runs once per image",
        advice=(SameImages(), Strategy("zero2")),
        evidence=f"observed on a tiny copy of the model: {run.per_image[0]}",
    )


def parted(run: Run, path: str, calls: int, more: bool) -> Finding:
    """Two ranks call a tower differently often in one forward.

    calls: of this rank, as far as it has come. more: whether another one makes more, else fewer.
    """
    times = "once" if calls == 1 else f"{calls} times"
    other = "more often" if more else "less often"
    return Finding(
        CODE,
        "error",
        f"under {run.strategy} ranks would hang: {tail(path, 26)} runs {times} here, "
        f"{other} on another one",
        scope="rank",
        advice=(SameImages(), Strategy("zero2")),
        evidence="seen in this run",
    )
