"""What hides a gradient from its leaf, or from the optimizer's step."""

from __future__ import annotations

from vlmguard_torch.ledger import given_deepspeed
from vlmguard_torch.ledger.reader import Subject

_FLAT = "FSDP1 keeps parameters in flat tensors"


def why_not(subject: Subject) -> str:
    """The reason why what the optimizer gets cannot be read; "" if it can."""
    if subject.engine is not None and not why_no_leaves(subject):
        return given_deepspeed.why_not(subject.engine)
    return why_no_leaves(subject)


def why_no_leaves(subject: Subject) -> str:
    """The reason why gradients cannot be seen at their leaves; "" if they can."""
    modules = list(subject.model.modules())
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in modules):
        return _FLAT
    if any(type(p).__name__ == "FlatParameter" for p in subject.parameters):
        return _FLAT
    split = any(hasattr(p, "device_mesh") for p in subject.parameters)
    if split and not any(hasattr(module, "_get_fsdp_state") for module in modules):
        return "tensor parallelism splits the parameters"
    return ""
