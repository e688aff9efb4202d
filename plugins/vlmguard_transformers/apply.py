"""The plan → changes to the trainer's objects, all or none."""

from __future__ import annotations

from typing import Any

from vlmguard.core.plan import Plan
from vlmguard.guard import Changes
from vlmguard_torch.layout import freezing, parameters
from vlmguard_torch.transaction import Transaction
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.model import loss_scale, padding
from vlmguard_transformers.profile import Profile


def apply(trainer: Any, profile: Profile, plan: Plan) -> Changes:
    """Make the plan's changes. On an exception everything is as it was."""
    frozen = parameters.matching(profile.model(trainer), plan.freeze, profile.parts(trainer))
    with Transaction() as transaction:
        if plan.variant is not None:
            if plan.variant.use_reentrant is not None:
                profile.set_variant(trainer, plan.variant.use_reentrant, transaction)
            hf.set_wrap(trainer, plan.variant, transaction)
        freezing.obey(frozen, transaction)
        if plan.mean_loss:
            loss_scale.mend(trainer, transaction)
        if plan.pad:
            padding.install(trainer, profile, transaction)
    return transaction.changes
