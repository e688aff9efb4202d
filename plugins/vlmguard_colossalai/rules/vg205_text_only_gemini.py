"""A batch of text under Gemini or low-level ZeRO, while a tower that only images use trains.

What it does
    Fires before forward on a batch without an image. vlmguard first tries a blank image on a tiny
    copy of the model. If the result stays the same, the blank image runs inside the model's
    own forward and the batch is left as it is. Otherwise a dummy image without labels is added
    to the batch. This is done only if it changes nothing: for Qwen-VL and LLaVA, which are known,
    and for models in which three forwards before boost showed it.

Why it is bad
    Under Gemini a chunk whose parameters got no gradient still holds their weights. With
    max_norm > 0 the step fails: `assert grad_chunk.l2_norm is not None`. With max_norm = 0 the
    weights are used as gradients, and every vision weight moves towards zero without an error.
    A chunk that holds both text and vision parameters raises `ZERO DDP error`. If only some
    ranks have an image, they hang. Low-level ZeRO breaks only in this last case.
    A frozen tower also hangs if only some ranks have an image. Gemini releases chunks after a
    number of operations, which it counted in its first iteration. A rank with an image runs more
    operations, and gathers chunks at other places than a rank without one.
    Some models take no blank image, or only one: a tower under reentrant checkpointing cannot run
    twice in one forward. Then each rank writes into the rendezvous store how often its batch runs
    the towers. If the ranks differ, the run is stopped before it hangs.

When it is wrong
    The rule is silent in two cases that break nothing: a frozen tower in one process, and text
    after an image in one accumulation window if the tower has its own chunks. A blank image's
    gradient is zero, but Adam's momentum and weight decay still move the tower. Only freezing
    stops that. Under low-level ZeRO a step in which all ranks have text needs no blank image. It
    gets one all the same, since no rank knows the batches of the others.
    An unknown model may run its towers on a dummy of its own, or take images under another name.
    It is not stopped here. VG303 looks at what its forward used.

Example
    Qwen2-VL, GeminiPlugin(max_norm=1.0), data that mix image and text rows

Use instead
    Give the processor (guard_booster(booster, processor=…)), or put an image in every batch. A
    tower that is not meant to train can be frozen before boost. VG205=error stops instead.

Evidence
    hpcaitech/ColossalAI#6102. Own measurement: colossalai 0.5.0, 1 and 2 gloo ranks on CPU.
"""

from __future__ import annotations

from vlmguard.core.facts import Batch, Run
from vlmguard.core.findings import DummyImage, Finding, PadWithBlank, cut, listed
from vlmguard.core.hookspecs import hookimpl

CODE = "VG205"
NAME = "text-only-gemini"
DEFAULT = "fix"
FRAMEWORKS = ("colossalai",)


@hookimpl
def pre_step(run: Run, batch: Batch | None) -> Finding | None:
    if batch is None or batch.kinds != ("text",):
        return None
    why_not = getattr(batch, "why_not", "")
    lacks, *more = tuple(getattr(batch, "lacks", ())) or ("pixel_values",)
    trains = run.may_be_unused != "no"
    towers = [tower.kind for tower in run.trained_towers] or ["vision"]
    used = getattr(batch, "used", False)
    if not getattr(batch, "known", True):
        return _unknown(run, why_not) if trains and run.world > 1 else None
    hang = "ranks with and without media would hang"
    if run.strategy == "gemini" and trains and not used:
        what = f"Gemini would crash, hang or train {listed(towers, 3)} wrongly"
    elif run.strategy in ("gemini", "lowlevelzero") and trains and run.world > 1:
        what = f"{hang}: {listed(towers, 3)} train{'s' if len(towers) == 1 else ''}"
    elif run.strategy == "gemini" and run.world > 1 and getattr(batch, "reorders", False):
        what = f"{hang}: they gather chunks in another order"
    else:
        return None
    return Finding(
        CODE,
        "error" if run.strategy == "gemini" and trains and not used else "warning",
        f"{what}; no {lacks}, no dummy image ({cut(why_not, 20)})"
        if why_not
        else f"{what}; no {lacks}",
        scope="rank",
        remedies=() if why_not else (DummyImage(),),
        advice=("guard_booster(booster, processor=…)", PadWithBlank()),
        evidence="hpcaitech/ColossalAI#6102; own runs, colossalai 0.5.0; this batch has no "
        + ", ".join((lacks, *more))
        + (f"; no dummy image: {why_not}" if why_not else ""),
    )


def _unknown(run: Run, why_not: str) -> Finding | None:
    """Whether the towers run is seen in forward (VG303): it may hang before that."""
    if run.strategy not in ("gemini", "lowlevelzero"):
        return None
    return Finding(
        CODE,
        "note",
        "ranks hang if only some run the towers; model and images of this batch are not known "
        f"({cut(why_not, 34)})",
        scope="rank",
        advice=("put an image in every batch", "freeze towers that are not meant to train"),
        evidence="own runs, colossalai 0.5.0",
    )


def ranks_differ(mine: int, other: int, reentrant: bool = False) -> Finding:
    """Two ranks run the towers a different number of times in one forward, and nobody can even it
    out. ``reentrant``: for their checkpointing alone."""
    why = "no blank can be made"
    if reentrant:
        why = "a reentrant tower cannot run twice"
    unless = ("checkpoint with use_reentrant=False",) if reentrant else ()
    return Finding(
        CODE,
        "error",
        f"ranks would hang: this one runs the towers {_said(mine)} in a forward, another one "
        f"{_said(other)}; {why}",
        scope="rank",
        advice=(*unless, "give all ranks batches of one kind", "put an image in every batch"),
        evidence="own runs, colossalai 0.5.0",
    )


def _said(times: int) -> str:
    return ("not at all", "once", "twice")[times]
