"""A checkpoint variant that the framework puts in place of yours.

What it does
    Fires if you asked for one variant of gradient checkpointing and the framework runs the
    other. It says what was measured for your variant. `VG111=fix` sets your variant again if the
    measured tables say that it works.

Why it is bad
    TRL from 0.28 on sets use_reentrant to True for PEFT under ZeRO-3, whatever you say.
    DeepSpeed needed that before 0.19.3; since then both variants are right, and the
    reentrant one is the slower one and breaks with more than one forward.

When it is wrong
    Before DeepSpeed 0.19.3 the framework's choice is the right one. The tables say so, and
    nothing is changed.

Example
    trl sft --use_peft --deepspeed zero3.json --gradient_checkpointing_kwargs
    '{"use_reentrant": false}'

Use instead
    VG111=fix, or leave the variant to the framework.

Evidence
    huggingface/trl#6356, huggingface/trl#4951; TRL's sources, 0.28.0 - 1.16.0; own runs of
    DeepSpeed 0.14.5 - 0.19.8.
"""

from __future__ import annotations

from vlmguard.compat import choice as compat
from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, Remedy, Variant
from vlmguard.core.hookspecs import hookimpl

CODE = "VG111"
NAME = "forced-variant"
DEFAULT = "warn"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    checkpointing = run.checkpointing
    asked, effective = checkpointing.asked, checkpointing.use_reentrant
    if not checkpointing.on or asked is None or effective is None or asked == effective:
        return None
    known, remedies = _verdict(run, asked)
    by = checkpointing.decided_by or run.framework
    return Finding(
        CODE,
        "note",
        f"{by} sets use_reentrant={effective}; your {asked} {known}",
        remedies=remedies,
        advice="set VLMGUARD_RULES=VG111=fix to keep yours" if remedies else "",
        evidence="huggingface/trl#6356; compat/verdicts.toml",
    )


def _verdict(run: Run, asked: bool) -> tuple[str, tuple[Remedy, ...]]:
    """What is known of the variant that the user wants here, and the way to it."""
    wanted = "reentrant" if asked else "non_reentrant"
    choice = compat.choose(run)
    if broken := choice.verdict_of(wanted):
        return f"fails on these releases ({broken})", ()
    options = [each for each in choice.options if each.checkpointing == wanted]
    if any(each.sure and not each.broken for each in options):
        return "works on these releases, as measured", (Variant(use_reentrant=asked),)
    return "was not measured on these releases", ()
