"""The account of a model and the optimizer that moves it: which tensors there are, and which group
of the optimizer holds each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vlmguard.ledger.account import Account, Tensor
from vlmguard_torch import stepping
from vlmguard_torch.layout import towers

_OF_DEEPSPEED = ("bit16_groups", "bf16_groups", "fp16_groups")


def account_of(model: Any, optimizer: Any, world: int = 1, strategy: str = "") -> Account:
    """The account of a model and the optimizer that moves it."""
    paths, held = towers.by_name(model), groups(optimizer)
    tensors = tuple(
        Tensor(
            towers.plain(name),
            towers.kind_of(towers.plain(name), paths),
            numel(p),
            str(p.dtype).removeprefix("torch."),
            p.requires_grad,
            held.get(id(p)),
        )
        for name, p in model.named_parameters()
    )
    return Account(tensors, world, strategy)


def numel(parameter: Any) -> int:
    """Entries of the whole tensor, which ZeRO-3 leaves empty."""
    whole = getattr(parameter, "ds_numel", None)
    return int(parameter.numel() if whole is None else whole)


def groups(optimizer: Any) -> dict[int, int]:
    """Identity of a parameter → index of the group that holds it. DeepSpeed's optimizers hold flat
    parts: there it is the group that these were made of."""
    found: dict[int, int] = {}
    for each in stepping.chain(optimizer):
        for number, parameters in _of_deepspeed(each):
            found.update({id(p): number for p in parameters})
        for number, group in enumerate(getattr(each, "param_groups", ())):
            for p in group["params"]:
                found.setdefault(id(p), number)
    return found


def _of_deepspeed(optimizer: Any) -> Iterator[tuple[int, Any]]:
    known = getattr(optimizer, "__dict__", {})
    parts = known.get("sub_group_to_group_id") or {}  # ZeRO-3 splits groups
    for name in _OF_DEEPSPEED:
        for number, parameters in enumerate(known.get(name) or ()):
            yield parts.get(number, number), parameters


def rates(optimizer: Any) -> list[Any]:
    """Each group's learning rate at this moment: a number, or a tensor that nobody waits for."""
    found = getattr(optimizer, "param_groups", ())
    rates = [group.get("lr") for group in found]
    return [rate.detach().clone() if hasattr(rate, "detach") else rate for rate in rates]


def peaks(optimizer: Any) -> list[float]:
    """Each group's highest learning rate, as far as it is known: a schedule begins with it."""
    found = []
    for group in getattr(optimizer, "param_groups", ()):
        rates = [group.get("initial_lr"), group.get("lr")]
        known = [rate for rate in rates if isinstance(rate, (int, float))]
        found.append(float(max(known, default=0.0)))
    return found


def ties(model: Any) -> list[frozenset[str]]:
    """Names that are one parameter."""
    names: dict[int, set[str]] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(p), set()).add(towers.plain(name))
    return [frozenset(each) for each in names.values() if len(each) > 1]


def parted(model: Any) -> list[tuple[str, str, Any, Any]]:
    """Names and tensors that the model's class ties (transformers ≥ 5 keeps a table), but which are
    two: a copy that an adapter or a checkpoint has made."""
    base, found = towers.without_adapters(model), []
    for target, source in dict(getattr(base, "all_tied_weights_keys", None) or {}).items():
        one, other = _at(base, target), _at(base, source)
        both = one is not None and other is not None and one is not other
        if both and one.shape == other.shape and (one.requires_grad or other.requires_grad):
            found.append((source, target, other, one))
    return found


def _at(base: Any, name: str) -> Any:
    try:
        return base.get_parameter(name)
    except AttributeError:
        return None


def strategy_of(model: Any, wrapped: Any = None, engine: Any = None) -> str:
    """ "single", "ddp", "zero0" …, "fsdp2", "fsdp", by the objects."""
    if engine is not None:
        return f"zero{int(engine.zero_optimization_stage())}"
    kinds = {type(each).__name__ for each in (wrapped, model)}
    inner = {type(each).__name__ for each in model.modules()}
    if "FullyShardedDataParallel" in kinds | inner:
        return "fsdp"
    if any(type(p).__name__ == "DTensor" for p in model.parameters()):
        return "fsdp2"
    return "ddp" if "DistributedDataParallel" in kinds else "single"
