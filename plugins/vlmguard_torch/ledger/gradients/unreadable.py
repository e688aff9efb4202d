"""What hides a gradient from its leaf, or from the optimizer's step."""

from __future__ import annotations

from vlmguard_torch.ledger.gradients import optimizer_input_deepspeed
from vlmguard_torch.ledger.reader import Subject

_FLAT = "FSDP1 keeps parameters in flat tensors"


def why_not(subject: Subject) -> str:
    """The reason why what the optimizer gets cannot be read; "" if it can."""
    if why := why_no_leaves(subject):
        return why
    if subject.engine is None:
        return ""
    why = optimizer_input_deepspeed.why_not(subject.engine)
    return why or ("DeepSpeed averages over some of the ranks" if divides(subject) else "")


def shares_rows(subject: Subject) -> bool:
    """Whether ranks have the same rows by design, each with a part of the model or of a row."""
    return bool(subject.extra.get("shares_rows")) or divides(subject)


def divides(subject: Subject) -> bool:
    """Whether DeepSpeed averages over fewer ranks than there are, or tensor parallelism splits
    parameters."""
    replicas = getattr(subject.engine, "dp_world_size", subject.account.world)
    return replicas != subject.account.world or _tensor_parallel(subject)


def why_no_leaves(subject: Subject) -> str:
    """The reason why gradients cannot be seen at their leaves; "" if they can."""
    modules = list(subject.model.modules())
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in modules):
        return _FLAT
    if any(type(p).__name__ == "FlatParameter" for p in subject.parameters):
        return _FLAT
    return "tensor parallelism splits the parameters" if _tensor_parallel(subject) else ""


def _tensor_parallel(subject: Subject) -> bool:
    """Whether some parameters are split, and FSDP2 does not do it."""
    if not any(hasattr(p, "device_mesh") for p in subject.parameters):
        return False
    return not any(hasattr(module, "_get_fsdp_state") for module in subject.model.modules())
