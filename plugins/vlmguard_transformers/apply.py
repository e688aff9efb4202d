"""A reading → judged and mended: the plan's changes to the trainer's objects, all or none."""

from __future__ import annotations

from vlmguard import guard
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.run_report import Changes
from vlmguard_torch.layout import parameters
from vlmguard_transformers import trainer as hf
from vlmguard_transformers import translate
from vlmguard_transformers.model import loss
from vlmguard_transformers.model_reading import Reading


def judge(read: Reading) -> RunState | None:
    """`guard.pre_wrap` for a trainer, or what of one there is in a loop."""
    return guard.pre_wrap(
        lambda: translate.run(read),
        lambda plan: apply(read, plan),
        lambda: check(read),
        owner=read.trainer,
        spell=read.profile.spell,
        speaks=read.profile.speaks,
    )


def check(read: Reading) -> None:
    """Raise `SettingsError` for a freeze policy that this model cannot obey."""
    if read.policy == ():
        return
    from vlmguard_torch.layout import freezing

    freezing.check(read.parameters, read.policy, read.parts)


def apply(read: Reading, plan: Plan) -> Changes:
    """Make the plan's changes. On an exception everything is as it was."""
    from vlmguard_torch.layout import freezing
    from vlmguard_torch.transaction import Transaction

    trainer, profile = read.trainer, read.profile
    frozen = parameters.matching(read.parameters, plan.freeze, read.parts)
    with Transaction() as transaction:
        if plan.variant is not None:
            if plan.variant.use_reentrant is not None:
                profile.set_variant(trainer, plan.variant.use_reentrant, transaction)
            hf.set_wrap(trainer, plan.variant, transaction)
        freezing.obey(frozen, transaction)
        if plan.mean_loss:
            loss.mend(trainer, transaction)
        if plan.pad:
            from vlmguard_transformers.model import padding

            padding.install(read, transaction)
    return transaction.changes
