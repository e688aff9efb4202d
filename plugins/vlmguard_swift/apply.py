"""The plan → changes to ms-swift's objects, all or none."""

from __future__ import annotations

import os
from typing import Any

from vlmguard.core.plan import Plan
from vlmguard_swift import decision, shared, translate
from vlmguard_transformers import freezing
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.change import Journal


def apply(trainer: Any, plan: Plan) -> tuple[str, ...]:
    """Make the plan's changes. On an exception everything is as it was.

    Returns:
        one "what: from → to" for each change.
    """
    frozen = hf.matching(trainer.model, plan.freeze, translate.paths(trainer.model))
    with Journal() as journal:
        if plan.variant is not None:
            if plan.variant.use_reentrant is not None:
                decision.remake(trainer, plan.variant.use_reentrant, journal)
            hf.set_wrap(trainer, plan.variant, journal)
        freezing.obey(frozen, journal)
        if plan.dummy_image:
            os.environ[shared.COMPLETE] = "1"
            journal.did(
                lambda: os.environ.pop(shared.COMPLETE, None) and None,
                "a forward without an image runs the towers on a blank one, times zero",
            )
    return tuple(journal.said)
