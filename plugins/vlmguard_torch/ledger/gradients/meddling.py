"""What a user put on parameters and wrappers that changes gradients: hooks of all kinds."""

from __future__ import annotations

from typing import Any

import torch

from vlmguard_torch.ledger.reader import Subject

_OURS = ("vlmguard", "deepspeed", "torch.distributed", "accelerate")
_ROUNDS = {"bf16_compress_hook": 2.0**-7, "fp16_compress_hook": 2.0**-10}
"""DDP's communication hooks that only round, with what to."""
_SUMS = ("allreduce_hook",)


def hooks(subject: Subject, leaves: Any) -> dict[str, Any]:
    """Places of tensors with a user's hook; names of communication hooks that change values; the
    precision that gradients are sent in."""
    names = [_name(hook) for hook in leaves.comm_hooks]
    names += ["zero_quantized_gradients"] if _quantized(subject.engine) else []
    sent = max((_ROUNDS.get(name, 0.0) for name in names), default=0.0)
    return {
        "hooked": [n for n in leaves.index if _user_hooks(subject.parameters[n])],
        "comm_hooks": [name for name in names if name not in _ROUNDS and name not in _SUMS],
        "sent": max(sent, _sent_in(subject, leaves)),
    }


def _user_hooks(p: Any) -> bool:
    every = [*(p._backward_hooks or {}).values(), *(p._post_accumulate_grad_hooks or {}).values()]
    return any(not _module(hook).startswith(_OURS) for hook in every)


def _module(hook: Any) -> str:
    inner = getattr(hook, "func", hook)
    return str(getattr(inner, "__module__", "") or type(inner).__module__)


def _name(hook: Any) -> str:
    return str(getattr(hook, "__qualname__", None) or type(hook).__qualname__)


def _sent_in(subject: Subject, leaves: Any) -> float:
    """The precision that DeepSpeed or FSDP2 is told to send gradients in."""
    dtypes = [getattr(subject.engine, "communication_data_type", None), *leaves.sharded.sent_in()]
    return max((torch.finfo(each).eps for each in dtypes if each is not None), default=0.0)


def _quantized(engine: Any) -> bool:
    """Whether ZeRO++ sends gradients as a few bits."""
    asked = getattr(engine, "zero_quantized_gradients", None)
    return bool(asked()) if callable(asked) else False
