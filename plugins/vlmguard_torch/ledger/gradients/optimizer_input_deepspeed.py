"""What DeepSpeed's optimizers are about to get, as parts that this rank holds.

Read where DeepSpeed keeps them, before it divides by the loss scale and clips. Its own
`safe_get_full_grad` would gather each tensor from all ranks.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

Fragment = tuple[Any, int, float]
"""Part of a gradient, its start in the whole, and what makes the mean over ranks the whole."""
_PARTITIONS = "_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition"


def fragment(p: Any) -> Fragment | None:
    """This rank's part of a parameter's gradient; None where it holds none."""
    if hasattr(p, "ds_id"):
        return _stage3(p)
    if getattr(p, "_hp_grad", None) is not None:
        return p._hp_grad, 0, 1.0
    if hasattr(p, "_hp_mapping"):
        return _stage12(p) if p._hp_mapping is not None else None
    return None if p.grad is None else (p.grad, 0, 1.0)


def _stage12(p: Any) -> Fragment:
    """ZeRO-1 and 2: the part that lies in this rank's stretch of a group."""
    there = p._hp_mapping.lp_fragment_address
    part = p._hp_mapping.get_lp_grad_fragment(p._index_in_param_group).reshape(-1)
    if part.numel() > there.numel:
        part = part.narrow(0, there.start, there.numel)
    return part, there.start, float(dist.get_world_size(p._dp_group))


def _stage3(p: Any) -> Fragment:
    """ZeRO-3: an equal part on each rank, the last one padded."""
    optimizer = p._z3_optimizer
    size = p.ds_tensor.numel()
    start = dist.get_rank(p.ds_process_group) * size
    held = max(0, min(size, p.ds_numel - start))
    if getattr(optimizer, "offload_optimizer", False):
        group, at, _ = optimizer.grad_position[optimizer.get_param_id(p)]
        part = optimizer.fp32_partitioned_groups_flat[group].grad.narrow(0, at, size)
    else:
        part = getattr(optimizer, _PARTITIONS)[p.ds_id]
    part = part.reshape(-1).narrow(0, 0, held)
    return part, start, float(dist.get_world_size(p.ds_process_group))


def why_not(engine: Any) -> str:
    """What of DeepSpeed hides gradients; "" if nothing does."""
    if type(engine).__name__ == "PipelineEngine":
        return "DeepSpeed's pipeline splits the model"
    if getattr(engine, "sequence_parallel_size", 1) > 1:
        return "sequence parallelism adds gradients up in its own way"
    if not getattr(engine, "enable_backward_allreduce", True):
        return "the optimizer exchanges gradients itself"
    optimizer = getattr(engine, "optimizer", None)
    if getattr(optimizer, "swap_optimizer", False):
        return "gradients lie on NVMe"
    if getattr(optimizer, "round_robin_gradients", False):
        return "round_robin_gradients: DeepSpeed's own table of gradients does not hold there"
    return ""
