"""FSDP2: what a forward uses in a parameter's place, and where a local shard lies in the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vlmguard_torch.layout import fsdp2
from vlmguard_torch.ledger.reader import Subject
from vlmguard_torch.module_calls import ForwardHook


class Places:
    """The parameters of FSDP2's groups. Empty without FSDP2."""

    def __init__(self, subject: Subject) -> None:
        self._of = {id(p): n for n, p in enumerate(subject.parameters)}
        self._modules = [m for m in subject.model.modules() if hasattr(m, "_get_fsdp_state")]
        self._hook: Callable[[int, Any], None] | None = None
        self._params: dict[int, Any] = {}
        self._hooked: set[int] = set()

    def open(self, hook: Callable[[int, Any], None]) -> list[Any]:
        """Hook what the forwards of this window use: known once a group was gathered. The hooks
        stand behind FSDP2's own, which gather."""
        self._hook, self._hooked, self._params = hook, set(), {}
        gathered = ForwardHook("the ledger's sums", self._gathered)
        return [gathered.on(m) for m in self._modules]

    def close(self) -> None:
        """Hold nothing."""
        self._hook, self._hooked, self._params = None, set(), {}

    def _gathered(self, module: Any, args: Any, kwargs: Any) -> None:
        for each in fsdp2.of_module(module):
            n = self._of.get(id(each.sharded_param))
            used = getattr(each, "_unsharded_param", None)
            if n is not None and used is not None and id(used) not in self._hooked:
                self._hooked.add(id(used))
                self._params[n] = each
                if used.requires_grad and self._hook is not None:
                    self._hook(n, used)

    def pending(self, n: int, again: bool) -> bool:
        """Whether earlier parts may still wait to be reduced, though there is no gradient yet:
        they came in the same backward, or FSDP2 was told not to reduce."""
        each = self._params.get(n)
        if each is None:
            return False
        waiting = (each._unsharded_param.grad, each.unsharded_accumulated_grad)
        return again or any(grad is not None for grad in waiting)

    def sent_in(self) -> list[Any]:
        """The dtypes that gradients are reduced in, where they are not the parameters' own."""
        return [getattr(each, "reduce_dtype", None) for each in self._params.values()]


def local(gradient: Any, world: int) -> tuple[Any, int, float]:
    """What this rank holds of a gradient, its start in the whole, and what to multiply it by so
    that the mean over ranks is the whole. None in the place of what is split in other ways."""
    if gradient is None or not hasattr(gradient, "device_mesh"):
        return gradient, 0, 1.0
    start, share = 0, float(world)
    mesh, shape = gradient.device_mesh, gradient.shape
    for dim, placement in enumerate(gradient.placements):
        if placement.is_replicate():
            share /= mesh.size(dim)
        elif placement.is_shard(0) and start == 0 and shape:
            chunk = -(-shape[0] // mesh.size(dim))
            start = min(chunk * mesh.get_local_rank(dim), shape[0]) * (shape.numel() // shape[0])
        else:
            return None, 0, 1.0
    return gradient.to_local(), start, share
