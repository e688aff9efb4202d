"""A trainable tower to which no gradient comes.

What it does
    Watches each tower that an optimizer moves, from one step to the next, until two steps have
    trained it. It looks whether the tower ran with gradients switched on, whether its output
    needed a gradient and got one, and whether any of its parameters got one. It stops the run
    only if none of its parameters got one and its code loses the gradient in every step:
    torch.no_grad decorates a forward in the tower, or reentrant checkpointing runs blocks whose
    input needs no gradient. Two steps in a row are enough if all modules inside the tower ran with
    gradients switched off, else eight, since a forward may drop features at random. Everything
    else may be meant for the first steps alone: a "with torch.no_grad()" or a detach inside a
    forward, a whole tower called under torch.no_grad, a loss that does not use its output. After
    eight such steps in a row there is a warning, and the run goes on. A
    model that has no tower for images, video or audio only gets a warning. Single parameters
    that two steps miss are a note. If the run would end by itself (DDP that does not look for
    unused parameters, Gemini), one step that trained something else is enough to say why.

Why it is bad
    A tower that is meant to train and never moves is found after days, in the evaluation.

When it is wrong
    A tower that you leave out on purpose should not require gradients, or should not be in the
    optimizer. Then the rule says nothing. The rule does not report a step without an image, a
    skipped batch, or gradients that are dropped or taken away and given back. If a part of a
    tower gets a gradient only in some steps (a temporal layer, a layer that is dropped at random),
    and neither of the two steps used it, the rule gives a note although nothing is wrong.

Example
    a vision tower whose forward is decorated with torch.no_grad; reentrant blocks without input
    gradients

Use instead
    Gradients through the tower: non-reentrant checkpointing, input gradients, no torch.no_grad
    and no detach around it. If it is not meant to train, freeze it.

Evidence
    huggingface/trl#1936, 2U1/Qwen-VL-Series-Finetune#193. Own measurement: 2 gloo ranks on
    CPU, torch 2.13.0.
"""

from __future__ import annotations

from vlmguard.core.facts import Gradients, Run, Tower
from vlmguard.core.findings import Advice, Finding, FreezeTower, Level, SetVariant, tail
from vlmguard.core.hookspecs import hookimpl

CODE = "VG302"
NAME = "no-gradient"
DEFAULT = "error"

_WHY = {
    "cut": "it ran and got no gradient",
    "detached": "it ran and got no gradient",
    "no_grad": "it ran with gradients switched off",
    "dropped": "no gradient came to its output",
}
_DDP = "DDP would fail"
_WIRING = {
    "cut": "look for no_grad, .detach() or .data in its forward",
    "detached": "look for .detach() or .data in its forward",
    "no_grad": "call it outside torch.no_grad",
    "dropped": "look behind it for .detach(), or for a loss that does not use its output",
}


@hookimpl
def pre_step(run: Run, gradients: Gradients | None) -> list[Finding]:
    if gradients is None:
        return []
    found = (_finding(run, kind, gradients) for kind in gradients.unreached)
    return [finding for finding in found if finding is not None]


def _finding(run: Run, kind: str, gradients: Gradients) -> Finding | None:
    names, number = gradients.unreached[kind], gradients.trainable.get(kind, 0)
    if len(names) < number:
        return _some(kind, [n for n in names if n not in gradients.by_design], number)
    if not Tower(kind).sees and gradients.by_design and set(names) <= set(gradients.by_design):
        return None  # for example the pooler of an embedder
    wiring = gradients.wiring.get(kind, "unknown")
    towers = Tower(kind).sees or bool(run.image_towers)
    ends = run.needs_all_gradients and (gradients.tried or gradients.steps == 1)
    if wiring not in _WHY or (gradients.tried and wiring == "dropped"):
        return None
    return Finding(
        CODE,
        _level(wiring, gradients.tried or ends, towers),
        f"{kind} does not train: {_WHY[wiring]} in {_told(gradients)} ({number} tensors)"
        f"{_end(run, gradients) if ends and wiring != 'dropped' else ''}",
        scope="rank",
        advice=_advice(run, kind, wiring),
        evidence=f"seen in this run: no gradient of {names[0]}",
    )


def _level(wiring: str, sure: bool, towers: bool) -> Level:
    """An error if the run would end by itself, or if the user asked for a dry step. ``towers``:
    whether the model has any; a run of text alone goes on."""
    certain = wiring == "cut" and towers
    return "error" if certain or (sure and wiring in ("cut", "detached", "no_grad")) else "warning"


def _told(gradients: Gradients) -> str:
    if gradients.tried:
        return "the dry step"
    return f"{gradients.steps} steps" if gradients.steps > 1 else "this step"


def _end(run: Run, gradients: Gradients) -> str:
    if run.strategy == "gemini":
        return "; Gemini would crash or train wrongly"
    return f"; {_DDP}" if gradients.tried else f"; {_DDP} next"


def _some(kind: str, names: list[str], number: int) -> Finding | None:
    if not names:
        return None
    why = (
        f"no gradient reached {len(names)} of the {number} trainable parameter tensors of {kind} "
        f"in two steps that trained the others, such as {tail(names[0])}"
    )
    return Finding(CODE, "note", why, scope="rank", evidence=f"seen in this run: {names[0]}")


def _advice(run: Run, kind: str, wiring: str) -> tuple[Advice | str, ...]:
    """The wiring first; to freeze is right only for what is not meant to train."""
    told: tuple[Advice | str, ...] = (_WIRING[wiring],)
    if wiring in ("cut", "detached") and run.checkpointing.on and run.checkpointing.use_reentrant:
        told = (SetVariant(False), "turn on input gradients for the tower", *told)
    return (*told, FreezeTower(kind, unmeant=True)) if Tower(kind).sees else told
