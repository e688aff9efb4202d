"""Whether each call of a module gathers weights from all ranks. Asked once the model is wrapped;
what cannot be read is answered as no."""

from __future__ import annotations

from typing import Any


def at_each_call(model: Any, module: Any) -> bool:
    """Of a module of ``model``, itself or by what it calls."""
    return _by_zero3(model, module) or any(_by_fsdp(each) for each in module.modules())


def _by_zero3(model: Any, module: Any) -> bool:
    """Weights that stay on every rank, and those of a leaf above it, are not gathered here."""
    around = (each for each in model.modules() if getattr(each, "_z3_leaf", False))
    if any(inner is module for leaf in around if leaf is not module for inner in leaf.modules()):
        return False
    return any(getattr(weight, "ds_persist", True) is False for weight in module.parameters())


def _by_fsdp(module: Any) -> bool:
    """A unit of FSDP2, or of FSDP1, that gives its weights back after forward."""
    if hasattr(module, "sharding_strategy"):
        return getattr(module.sharding_strategy, "name", "") in ("FULL_SHARD", "HYBRID_SHARD")
    if not hasattr(module, "_get_fsdp_state"):
        return False
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        groups = [getattr(state, "_fsdp_param_group", None)]
    return any(getattr(group, "post_forward_mesh_info", None) is not None for group in groups)
