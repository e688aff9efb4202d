"""The plan → changes to the model and the plug-in's options before boost, all or none."""

from __future__ import annotations

from typing import Any

from vlmguard.core.plan import Plan
from vlmguard.run_report import Changes
from vlmguard_colossalai.translate import Scene
from vlmguard_torch.layout import freezing, parameters
from vlmguard_torch.layout.model_checkpointing import set_on_model
from vlmguard_torch.transaction import Transaction

_SHOWN = 4  # at most so many words of a freeze policy are listed


def apply(scene: Scene, plan: Plan) -> Changes:
    """Make the plan's changes. On an exception everything is as it was."""
    frozen = parameters.matching(scene.model, plan.freeze, scene.paths)
    with Transaction() as transaction:
        if plan.variant is not None:
            options = {
                "find_unused_parameters": plan.variant.find_unused,
                "static_graph": plan.variant.static_graph,
            }
            for name, value in options.items():
                if value is not None:
                    _option(scene.ddp, name, value, transaction)
            if plan.variant.use_reentrant is not None:
                set_on_model(scene.model, plan.variant.use_reentrant, transaction)
        freezing.obey(frozen, transaction)
        if len(frozen) > _SHOWN:
            said = f"{len(frozen)} names of parameters trainable → frozen"
            transaction.changes["freeze"] = [said]
    return transaction.changes


def _option(options: dict[str, Any], name: str, value: bool, transaction: Transaction) -> None:
    before = options.get(name)
    options[name] = value
    transaction.did(lambda: options.__setitem__(name, before), f"{name}: {before} → {value}")
