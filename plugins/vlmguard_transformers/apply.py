"""The plan's changes to the trainer's objects, all or none. Imported where a plan has some."""

from __future__ import annotations

from vlmguard.core.plan import Plan
from vlmguard.run_report import Changes
from vlmguard_torch.layout import freezing, parameters
from vlmguard_torch.transaction import Transaction
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.model import loss
from vlmguard_transformers.model_reading import Reading


def apply(read: Reading, plan: Plan) -> Changes:
    """Make the plan's changes. On an exception everything is as it was."""
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
