"""The plan → changes to FlagEmbedding's objects, all or none."""

from __future__ import annotations

from typing import Any

from vlmguard.core.plan import Plan
from vlmguard_flagembedding.names import Named
from vlmguard_transformers import checkpointing, freezing
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.change import Journal


def apply(trainer: Any, plan: Plan) -> tuple[str, ...]:
    """Make the plan's changes. On an exception everything is as it was.

    Returns:
        one "what: from → to" for each change.
    """
    model, args = Named(trainer.model), trainer.args
    frozen = hf.matching(model, plan.freeze, model.parts())
    with Journal() as journal:
        if plan.variant is not None:
            wanted = plan.variant.use_reentrant
            if wanted is not None:
                before = checkpointing.effective(args, model.inner)
                checkpointing.set_variant(args, before, wanted, journal)
            hf.set_wrap(trainer, plan.variant, journal)
        freezing.obey(frozen, journal)
    return tuple(journal.said)
