"""The plan → changes to the model and the plug-in's options before boost, all or none."""

from __future__ import annotations

from typing import Any

from vlmguard.core.plan import Plan
from vlmguard_colossalai.translate import Scene
from vlmguard_transformers import freezing
from vlmguard_transformers import trainer as hf
from vlmguard_transformers.change import Journal

_SHOWN = 4  # words of a freeze; more of them are not listed


def apply(scene: Scene, plan: Plan) -> tuple[str, ...]:
    """Make the plan's changes. On an exception everything is as it was."""
    frozen = hf.matching(scene.model, plan.freeze, scene.paths)
    with Journal() as journal:
        if plan.variant is not None:
            options = {
                "find_unused_parameters": plan.variant.find_unused,
                "static_graph": plan.variant.static_graph,
            }
            for name, value in options.items():
                if value is not None:
                    _option(scene.ddp, name, value, journal)
            if plan.variant.use_reentrant is not None:
                _variant(scene.model, plan.variant.use_reentrant, journal)
        others = len(journal.said)
        freezing.obey(frozen, journal)
        if len(frozen) > _SHOWN:
            journal.said[others:] = [f"{len(frozen)} names of parameters trainable → frozen"]
    return tuple(journal.said)


def _option(options: dict[str, Any], name: str, value: bool, journal: Journal) -> None:
    before = options.get(name)
    options[name] = value
    journal.did(lambda: options.__setitem__(name, before), f"{name}: {before} → {value}")


def _variant(model: Any, use_reentrant: bool, journal: Journal) -> None:
    """Have transformers set it, and remember what each module had."""
    for module in model.modules():
        if hasattr(module, "_gradient_checkpointing_func"):
            held = module._gradient_checkpointing_func
            journal.did(lambda m=module, f=held: setattr(m, "_gradient_checkpointing_func", f))
    model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
    journal.said.append(f"use_reentrant → {use_reentrant}")
