"""Reentrant checkpointing of a model of experts whose balance is part of the loss.

What it does
    Fires where blocks are checkpointed with reentry, and the loss has a part that balances the
    experts (router_aux_loss_coef above 0, output_router_logits) whose router logits transformers
    records by hooks while the blocks run.

Why it is bad
    A reentrant block runs without a graph the first time, and it is then that the logits are
    recorded. The part is in the loss that is logged, and its gradient is nothing: the routers are
    not balanced, and the blocks in front of them miss its share. Nothing fails.

When it is wrong
    Silent where the coefficient is 0, where the model's class records no router logits (in
    transformers 4.51 blocks return them, with a graph), and for a balancing that is no loss
    (DeepSeek-V3's bias). A model of text alone in one process is not guarded.

Example
    Qwen3-MoE, router_aux_loss_coef 0.001, gradient checkpointing: in transformers 4.57 reentry is
    the default, and in LLaMA-Factory it still is

Use instead
    use_reentrant=False: the gradients are those without checkpointing, to the bit.

Evidence
    Own runs, Qwen3-MoE, Mixtral, gpt-oss and Qwen3.5-MoE in transformers 4.57.6, 5.6, 5.19 and
    5.23, plain torch. With reentry the loss is the same and the routers' gradients lack all of
    this part (0.77 to 1.04 of their norm at a coefficient of 1). Without it they are equal. In
    4.51.3 both are right. Two ranks, transformers 5.23, a plain Trainer: updates 100 % off.
"""

from __future__ import annotations

from vlmguard.core.facts import Run
from vlmguard.core.findings import Choose, Finding, SetVariant
from vlmguard.core.hookspecs import hookimpl

CODE = "VG116"
NAME = "lost-router-loss"
DEFAULT = "fix"


@hookimpl
def pre_wrap(run: Run) -> Finding | None:
    checkpointing = run.checkpointing
    if run.phase != "train" or not run.router_loss:
        return None
    if not (checkpointing.on and checkpointing.use_reentrant):
        return None
    return Finding(
        CODE,
        "warning",
        "the experts would not be balanced: reentrant checkpointing loses the gradient of their "
        "balancing loss",
        remedies=(Choose(),),
        advice=(SetVariant(False),),
        evidence="own runs, transformers 4.57 to 5.23: the routers' gradients lack all of it",
    )
