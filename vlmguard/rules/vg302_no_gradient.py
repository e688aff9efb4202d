"""Trainable parameters that no gradient reached.

What it does
    Watches the first steps and the first of every new kind of batch: whether a gradient is
    at the parameter, under ZeRO by hooks. Names only, no tensor is read.

Why it is bad
    A tower that is meant to train and never moves is found after days, in the evaluation.

When it is wrong
    LLaVA-1.5's last vision layer is never trained by design; a text-only batch reaches no
    vision parameter. Both are at most a note.

Example
    a tower under torch.no_grad; reentrant blocks without input gradients

Use instead
    Non-reentrant checkpointing, input gradients on the tower, or freeze what is not to train.

Evidence
    huggingface/trl#1936, 2U1/Qwen-VL-Series-Finetune#193. Own measurement: 2 gloo ranks on
    CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.advice import Advice, FreezeTower, SetVariant
from vlmguard.core.facts import MEDIA, Batch, Gradients, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG302"
NAME = "no-gradient"
DEFAULT = "error"


@hookimpl
def pre_step(run: Run, batch: Batch | None, gradients: Gradients | None) -> list[Finding]:
    found: list[Finding] = []
    if gradients is None:
        return found
    # A text model's parameters belong to no tower; beside a tower, such a one may wait for images.
    sees = any(tower.kind == "vision" for tower in run.towers)
    always = ("llm",) if sees else ("llm", "other")
    for kind, names in gradients.unreached.items():
        unexplained = [name for name in names if name not in gradients.by_design]
        if not unexplained or (kind not in always and not set(MEDIA) & set(gradients.kinds)):
            continue
        whole = len(names) == gradients.trainable.get(kind)
        found.append(
            Finding(
                CODE,
                "error" if whole else "note",
                f"no gradient reached {'any' if whole else len(unexplained)} of the "
                f"{gradients.trainable.get(kind)} trainable parameter tensors of {kind}, such as "
                f"{unexplained[0]}",
                scope="rank",
                advice=_advice(run, kind),
            )
        )
    return found


def _advice(run: Run, kind: str) -> tuple[Advice | str, ...]:
    """Of what is in no tower no freeze policy has a word."""
    freeze = () if kind == "other" else (FreezeTower(kind),)
    if not (run.checkpointing.on and run.checkpointing.use_reentrant):
        return freeze
    return (SetVariant(False), "turn on input gradients for the tower", *freeze)
