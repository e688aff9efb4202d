"""A mixture of experts whose experts are modules of their own, under ZeRO-3.

What it does
    Says once that ranks may wait for each other, where experts are gathered one by one.

Why it is bad
    ZeRO-3 gathers an expert's weights when it is called. Ranks whose tokens choose different
    experts gather different weights: experts of one size are put together from parts of two, and
    DeepSpeed then finds a `disagreement on list contents`; where the numbers of calls differ the
    ranks wait for each other for ever.

When it is wrong
    Silent for fused experts (all in one tensor, as in transformers 5) and for DeepSpeed's leaf
    modules, which are gathered whole. Older classes call every expert in every forward, with no
    tokens where none chose it: nothing waits there. With experts_implementation="eager", fused
    experts call their activation once for each chosen expert, and ZeRO-3 notes these calls. If
    vlmguard runs a blank input (VG106), it makes such experts leaf modules.

Example
    Qwen3-VL-MoE of transformers 4, ZeRO-3, without leaf modules

Use instead
    deepspeed.utils.set_z3_leaf_modules(model, [the class of the block that holds the experts]).

Evidence
    DeepSpeed's documentation of set_z3_leaf_modules. Own measurement: a Qwen2-VL with two experts,
    deepspeed 0.19.8, 2 gloo ranks on CPU, torch 2.13.0; with leaf modules every update is right.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Finding, tail
from vlmguard.core.hookspecs import hookimpl

CODE = "VG114"
NAME = "expert-choice"
DEFAULT = "warn"
PHASES = ("train", "eval")


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    if run.strategy != "zero3" or run.world < 2 or not run.experts:
        return None
    return Finding(
        CODE,
        "note",
        f"if rows choose different experts of {tail(run.experts, 24)}, ZeRO-3 may fail or hang",
        advice="deepspeed.utils.set_z3_leaf_modules(model, [the class that holds the experts])",
        evidence="own runs, deepspeed 0.19.8: `disagreement on list contents`; in this model "
        + run.experts,
    )
