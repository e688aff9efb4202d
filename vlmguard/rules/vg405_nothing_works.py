"""No variant of gradient checkpointing works for these releases, strategy and model.

What it does
    Fires if the compatibility tables hold a failure for both kinds of checkpointing. Each was
    measured on these releases, or on an older and a newer release that agree.

Why it is bad
    The run crashes, hangs or trains wrongly whatever `use_reentrant` says.

When it is wrong
    The tables were measured on a tiny model, and yours may behave differently. VG405=warn goes on.

Example
    Two forwards before one backward, LoRA, ZeRO-3, deepspeed 0.19.2: non-reentrant crashes,
    reentrant keeps one contribution to each gradient and loses the other

Use instead
    The nearest combination that works, which the message names: a newer DeepSpeed, another
    strategy, a frozen tower, or no checkpointing.

Evidence
    compat/verdicts.toml, compat/choice.toml; `vlmguard compat` asks them for any releases.
"""

from __future__ import annotations

from vlmguard.compat import choice as compat
from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG405"
NAME = "nothing-works"
DEFAULT = "error"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    choice = compat.choose(run)
    return compat.nothing(choice) if choice.verdict == "nothing" else None
