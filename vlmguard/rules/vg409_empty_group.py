"""DeepSpeed drops an empty group of parameters, and torch's schedule counts its groups.

What it does
    Warns under ZeRO where torch is 2.10 or newer and transformers older than 5.1, if one of the
    Trainer's two groups (with and without weight decay) holds no parameter. For LoRA that is
    so unless biases, norms or other whole modules train as well. The rule is silent where a
    framework makes the groups itself: ms-swift and LLaMA-Factory.

Why it is bad
    The first step ends the run: "ValueError: zip() argument 2 is longer than argument 1", in
    lr_scheduler.step().

When it is wrong
    `vlmguard check` sees no parameters: with LoRA it says what may happen. In a run the
    groups are counted.

Example
    LoRA, ZeRO-3, torch 2.13, transformers 4.57

Use instead
    transformers 5.1 or newer, or torch 2.9; or a "scheduler" section in the DeepSpeed config.

Evidence
    Own runs: FlagEmbedding on transformers 4.51.3 and a plain Trainer on 4.57.6 end so, on
    5.19 they do not. transformers' integrations/deepspeed.py of 4.57.6, 5.0.0 and 5.1.0, as read.
"""

from __future__ import annotations

from packaging.version import Version

from vlmguard.compat.verdicts import base
from vlmguard.core.facts import ZERO, Run
from vlmguard.core.findings import Finding
from vlmguard.core.hookspecs import hookimpl

CODE = "VG409"
NAME = "empty-group"
DEFAULT = "warn"
COUNTS, ASKS = Version("2.10"), Version("5.1")
"""The torch that counts groups, and the transformers that lets DeepSpeed make the schedule."""


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if run.empty_group == "no" or run.strategy not in ZERO:
        return None
    torch, transformers = (base(run.releases.get(name)) for name in ("torch", "transformers"))
    if torch is None or torch < COUNTS or transformers is None or transformers >= ASKS:
        return None
    ends = "ends" if run.empty_group == "yes" else "may end"
    return Finding(
        CODE,
        "warning",
        f'the first step {ends} the run with "zip() argument 2 is longer": DeepSpeed drops an '
        "empty group of parameters",
        advice=f"pip install 'transformers>={ASKS}', or 'torch<{COUNTS}'",
        evidence="own runs on transformers 4.51.3 and 4.57.6, torch 2.13",
    )
