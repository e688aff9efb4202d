"""What the backward makes: each gradient, as it reaches its leaf, added to two sums a tensor.

One sum goes from the last step of the optimizer to this one, the other from when the gradient was
last None or zero. Only sketches are kept. Nothing waits for the device.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge
from torch.utils.weak import TensorWeakRef

from vlmguard.runtime.faults import contain
from vlmguard_torch.ledger.gradients import fsdp2_shards, wrapped
from vlmguard_torch.ledger.gradients.sketch import WIDTH, readable, sketch, table, times
from vlmguard_torch.ledger.reader import Subject

_SHARED: weakref.WeakValueDictionary[int, Leaves] = weakref.WeakValueDictionary()


def leaves_of(subject: Subject) -> Leaves:
    """The readers of one subject share its hooks."""
    found = _SHARED.get(id(subject))
    if found is None:
        found = _SHARED[id(subject)] = Leaves(subject)
    return found


class Leaves:
    """The leaves that one optimizer holds, in windows that are watched.

    Attributes:
        index: places in the account of the tensors that are watched in this window.
        parts: how many gradients reached each, by place.
        eps: the coarsest precision that one of them came in, by place.
        step: sketches of what came since the last step, by place.
        none: the same since its gradient was None or zero, what was there before included.
        first: the first of them.
        energy: sum of the squares of the parts' sketches, but for the first.
        carried: square of what a gradient held when the first part of this window came.
        unread: place → why its gradients cannot be read.
        late: whether a gradient came while the optimizer stepped: it runs the backward itself.
        later: whether the window began right after a step that was seen.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.home = _home(subject.parameters)
        self.sharded = fsdp2_shards.Places(subject)
        self.index: list[int] = []
        self.unread: dict[int, str] = {}
        self.forwards: list[str] = []
        self.comm_hooks: list[Any] = []
        self.stepping = self.late = self.later = False
        self._handles: list[Any] = []
        self._nodes: list[Any] = []
        self._bare: list[Any] = []
        self._opened = False

    @property
    def clears(self) -> bool:
        """Whether the gradient's own None says that a new sum begins: DeepSpeed takes it away."""
        return self.subject.engine is None

    def open(self) -> None:
        """A window begins. For the second reader it has begun."""
        if self._opened:
            return
        self._opened, self.stepping, self.late = True, False, False
        self.forwards, self.unread = [], {}
        self.index = self._watched()
        self.parts, self.eps = dict.fromkeys(self.index, 0), dict.fromkeys(self.index, 0.0)
        self._micro: dict[int, int] = {}
        self._looked: dict[int, tuple[Any, int]] = {}
        self._cleared = 0
        self.step: dict[int, torch.Tensor] = {}
        self.none: dict[int, torch.Tensor] = {}
        self.first: dict[int, torch.Tensor] = {}
        self.energy: dict[int, torch.Tensor] = {}
        self.carried: dict[int, torch.Tensor] = {}
        for n in self.index:
            self._hook(n, self.subject.parameters[n])
        self._handles += self.sharded.open(self._hook)

    def _watched(self) -> list[int]:
        """What trains and is held; where it is not known what is held, all that trains."""
        held = [each.group is not None for each in self.subject.account.tensors]
        every = not any(held)
        parameters = enumerate(self.subject.parameters)
        return [n for n, p in parameters if p.requires_grad and (every or held[n])]

    def _hook(self, n: int, used: Any) -> None:
        """On a parameter, or what FSDP2 puts in its place."""
        if n not in self.parts:
            return

        def part(gradient: Any) -> None:
            contain("the ledger's sums", self._part, n, gradient)

        if used._backward_hooks is None:
            self._bare.append(used)
        self._handles.append(used.register_hook(part))
        if self.clears and used is self.subject.parameters[n]:
            self._behind(n, used)

    def _behind(self, n: int, p: Any) -> None:
        """Look at a gradient behind torch's own addition. The hook is on the node that adds: one on
        the parameter would cost each later backward 0.5 µs, even once it is off."""

        def see(*_: Any) -> None:
            contain("the ledger's sums", self._see, n)

        node = get_gradient_edge(p).node
        self._nodes.append(node)
        self._handles.append(node.register_hook(see))

    def _see(self, n: int) -> None:
        """What torch itself added is no reason to look whether somebody changed it."""
        gradient = self.subject.parameters[n].grad
        if gradient is not None:
            self._looked[n] = _left(gradient)

    def _part(self, n: int, gradient: Any) -> None:
        self.parts[n] += 1
        self.late |= self.stepping
        local, start, weight = fsdp2_shards.local(gradient, self.subject.account.world)
        if not readable(local):
            self.unread[n] = "its gradient is sparse, or split in a way that is not read"
            return
        self.eps[n] = max(self.eps[n], torch.finfo(local.dtype).eps)
        found = times(sketch(local, start), weight)
        if n not in self.first:
            self.first[n] = self.step[n] = found
        else:
            self.step[n] = self.step[n] + found
            self.energy[n] = (found * found).sum() + self.energy.get(n, 0.0)
        if self.clears:
            self._since_none(n, found)

    def _since_none(self, n: int, found: torch.Tensor) -> None:
        if self._cleared < len(self.forwards):
            self._clear()  # the user may have cleared some between this forward and its backward
            self._cleared = len(self.forwards)
        first, again = n not in self._micro, self._micro.get(n) == len(self.forwards)
        self._micro[n] = len(self.forwards)
        self._again(n, first, again)
        self.none[n] = self.none[n] + found if n in self.none else found

    def _clear(self) -> None:
        """Forget sums of gradients that are None or zero now; a later part need not come."""
        for n in list(self.none):
            self._again(n, False, False)

    def _again(self, n: int, first: bool, again: bool) -> None:
        """The sum begins anew where the gradient is None or zero."""
        gradient = self.subject.parameters[n].grad
        if gradient is None:
            if first or not self.sharded.pending(n, again):
                self.none.pop(n, None)
                self.carried.pop(n, None)
        elif not _is(self._looked.get(n), gradient):
            self._looked[n] = _left(gradient)
            self._look(gradient, n, first)

    def _look(self, gradient: Any, n: int, first: bool) -> None:
        """It was changed since the last part: by a wrapper, or somebody set it to zero."""
        local, start, weight = fsdp2_shards.local(gradient, self.subject.account.world)
        held = times(sketch(local, start), weight)
        square = (held * held).sum()
        if first:
            self.none[n], self.carried[n] = held, square
        for sums in (self.none, self.carried):
            if n in sums:
                sums[n] = torch.where(square > 0, sums[n], 0.0)

    def table(self, rows: Mapping[int, torch.Tensor], width: int = WIDTH) -> torch.Tensor:
        """A row a watched tensor; zeros for those that have none."""
        found = (rows.get(n) for n in self.index)
        return table([None if row is None else row.view(width) for row in found], self.home, width)

    def replaced(self) -> list[int]:
        """Places of tensors whose gradient is another object than torch left."""
        return [*filter(self._other, self._looked)]

    def _other(self, n: int) -> bool:
        gradient = self.subject.parameters[n].grad
        return gradient is not None and self._looked[n][0]() is not gradient

    def batch(self) -> None:
        """A forward begins; called inside the wrapper's own."""
        if not self._opened:
            return
        forward, hooks = wrapped.now(self.subject.model)
        self.forwards.append(forward)
        self.comm_hooks = hooks or self.comm_hooks
        self._clear()

    def before(self) -> None:
        """The optimizer is about to step."""
        if not self._opened:
            return
        self.stepping = True
        # The last forward made no gradient for these. A new object in the place of one may be a
        # copy that a wrapper made, or may have replaced one that was cleared.
        for n in [n for n in self.none if self._micro.get(n, 0) < len(self.forwards)]:
            if n in self._looked and self._other(n):
                self.unread[n] = "its gradient was replaced after its last part"
            self._again(n, False, False)

    def after(self) -> None:
        """It has stepped."""
        self.stepping, self.later = False, True

    def close(self) -> None:
        """Hooks go off. The sums stay until the next window: 400 bytes a tensor."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._nodes.clear()
        for used in self._bare:
            if not used._backward_hooks:
                used._backward_hooks = None  # an empty dictionary would cost each backward 1 µs
        self._bare.clear()
        self.sharded.close()
        self._opened = False


def _left(gradient: Any) -> tuple[Any, int]:
    """The object, and how often it was written."""
    return TensorWeakRef(gradient), gradient._version


def _is(left: tuple[Any, int] | None, gradient: Any) -> bool:
    """Whether it is that object, and nobody wrote in it."""
    return left is not None and left[0]() is gradient and left[1] == gradient._version


def _home(parameters: tuple[Any, ...]) -> torch.device:
    """The device to keep sums on: an accelerator's if one holds a parameter."""
    devices = [p.device for p in parameters]
    there = [each for each in devices if each.type not in ("cpu", "meta")]
    return (there or [torch.device("cpu")])[0]
