"""A few entries of each weight that an optimizer moves, at fixed places, where they lie on this
rank: the tensor itself, a shard of FSDP2's, or DeepSpeed's fp32 master. Nothing is gathered."""

from __future__ import annotations

from typing import Any

import torch

from vlmguard_torch.ledger.reader import Subject

COUNT = 64
"""Entries of a tensor; those of a shard are as many."""


def weight(subject: Subject, n: int) -> Any:
    """This rank's part of tensor ``n``, a master where there is one; None if it has none."""
    p = subject.parameters[n]
    if subject.engine is None:
        return local(p)
    found = _of_zero3(p) if hasattr(p, "ds_id") else _of_zero12(p)
    return found[0] if found is not None else _whole(p)


def gradient(subject: Subject, n: int) -> Any:
    """The optimizer's gradient of the same entries; None if there is none, or it is not read."""
    p = subject.parameters[n]
    if subject.engine is None:
        return None if p.grad is None else local(p.grad)
    found = _of_zero3(p) if hasattr(p, "ds_id") else _of_zero12(p)
    if found is not None:
        return found[1]
    return p.grad


def is_master(subject: Subject, n: int) -> bool:
    """Whether `weight` is a master of higher precision than the tensor."""
    found = weight(subject, n)
    return found is not None and found.dtype != subject.parameters[n].dtype


def sample(tensor: Any, like: Any = None) -> Any:
    """A view of some entries; None where they cannot be taken, or lie not as in ``like``."""
    if tensor is None or tensor.layout != torch.strided or not tensor.numel():
        return None
    if hasattr(tensor, "__tensor_flatten__"):  # a quantised tensor may not support views
        return None
    if like is not None and (tensor.shape != like.shape or tensor.stride() != like.stride()):
        return None
    flat = _flat(tensor.detach())
    if flat is None:
        return None
    step = max(flat.numel() // COUNT, 1)
    step -= step > 1 and step % 2 == 0  # an odd step reaches all columns of a matrix
    return flat[::step][:COUNT]


def _flat(tensor: Any) -> Any:
    if tensor.is_contiguous():
        return tensor.view(-1)
    dims = sorted(
        (stride, size)
        for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
        if size > 1
    )
    dense = 1
    for stride, size in dims:
        if stride != dense:
            return None
        dense *= size
    return tensor.as_strided((tensor.numel(),), (1,))


def local(tensor: Any) -> Any:
    """Of a DTensor, this rank's shard."""
    return getattr(tensor, "_local_tensor", tensor)


def _whole(p: Any) -> Any:
    """A parameter that DeepSpeed leaves whole and moves itself."""
    return None if hasattr(p, "ds_id") or hasattr(p, "_hp_mapping") else p


def _of_zero12(p: Any) -> tuple[Any, Any] | None:
    """Master and gradient under ZeRO-1, 2 and DeepSpeed's bf16 optimizer."""
    mapping = getattr(p, "_hp_mapping", None)
    if mapping is None:
        return None
    held, gradient = mapping.hp_fragment, None
    try:
        gradient = mapping.get_lp_grad_fragment(p._index_in_param_group).reshape(-1)
        if gradient.numel() != held.numel():
            address = mapping.lp_fragment_address
            gradient = gradient.narrow(0, address.start, address.numel)
    except Exception:
        gradient = None
    return held, gradient


def _of_zero3(p: Any) -> tuple[Any, Any] | None:
    """The same under ZeRO-3; None where it lies on a disk."""
    try:
        optimizer = p._z3_optimizer
        group, start, size = optimizer.grad_position[optimizer.get_param_id(p)]
        flat = optimizer.fp32_partitioned_groups_flat[group]
        held, gradient = flat.narrow(0, start, size), None
        parts = vars(optimizer).get("_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition")
        if parts and p.ds_id in parts:
            gradient = parts[p.ds_id].reshape(-1).narrow(0, 0, size)
        elif flat.grad is not None:
            gradient = flat.grad.narrow(0, start, size)
        return held, gradient
    except Exception:
        return None
