"""FSDP2: a tower for which no rank had an input keeps no gradient, as without the blank input. The
layers of cross-attention that would have read its output keep none either.

The blank input leaves gradients of zeros. An optimizer with momentum moves a weight whose gradient
is zero, and leaves one alone that has no gradient. What other ranks had is known from the reduced
gradient alone. To read it waits for the device, once in a backward behind a blank input, and once
more for such layers. ZeRO-3 moves all weights anyway, and DDP takes no blank input.

Two things are not known here. A rank whose image leaves zeros, since its row has no target, keeps
them while ranks with text alone take theirs back. And an optimizer that steps in backward has
stepped by then.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from vlmguard.runtime.faults import contain
from vlmguard_torch import module_calls
from vlmguard_torch.layout import fsdp2

_WHAT = "gradients of a blank input"


@dataclass(eq=False)
class BlankInput:
    """A blank input of one forward.

    Attributes:
        key: what it stands for: a kind of media, or the layers of cross-attention.
        held: FSDP2's objects for the parameters there.
        moved: truth values; see `Gradients.blank`.
        needed: whether nothing else that the language model reads has a gradient.
        reached: whether the backward that runs now has come to it.
        alone: whether these parameters had no gradient but those of blank inputs as it began.
    """

    key: str
    held: list[Any]
    moved: Sequence[torch.Tensor]
    needed: bool = False
    reached: bool = False
    alone: bool = False


class Gradients:
    """Those that blank inputs leave in one model."""

    def __init__(self, owner: Any) -> None:
        self._owner = weakref.ref(owner)
        self._blanks: weakref.WeakSet[BlankInput] = weakref.WeakSet()
        self._backward = -1
        self._kept: dict[str, set[int]] = {}  # key → FSDP2's objects with a blank's gradient alone

    def blank(
        self,
        key: str,
        parameters: Iterable[Any],
        features: Sequence[torch.Tensor],
        moved: Sequence[torch.Tensor] = (),
    ) -> BlankInput | None:
        """A blank input has run in a forward, and ``features`` of it lead to ``parameters``: its
        `BlankInput`, if their gradients may be taken back.

        They are the user's to keep if ``moved``, of which all is known by the backward, holds truth
        values and none is true: a new Mllama's gates are zero and let nothing through. One rank may
        then hold zeros alone of what an image leaves, another not.
        """
        owner = self._owner()
        if owner is None or not torch.is_grad_enabled() or module_calls.is_compiling():
            return None
        if not any(each.requires_grad for each in features):
            return None
        known = fsdp2.by_parameter(owner)
        held = [known[id(p)] for p in parameters if p.requires_grad and id(p) in known]
        if not held:
            return None
        one = BlankInput(key, held, moved)
        self._blanks.add(one)
        for each in features:
            self.follow(one, each)
        return one

    def follow(self, one: BlankInput, feature: torch.Tensor) -> None:
        """A backward that comes to ``feature`` comes to this blank."""
        if feature.requires_grad:
            feature.register_hook(functools.partial(self._arrived, one))

    def used(self, key: str) -> None:
        """A forward with gradients has an input of its own for it."""
        self._kept.pop(key, None)

    def _arrived(self, one: BlankInput, gradient: Any) -> None:
        contain(_WHAT, self._reach, one)

    def _reach(self, one: BlankInput) -> None:
        """The first feature that a backward comes to: none of these parameters has a gradient of
        this backward yet."""
        now = module_calls.backward()
        if now != self._backward:
            self._backward = now
            for each in self._blanks:
                each.reached, each.alone = False, self._has_none(each)
            # It runs after FSDP2's own call, which reduces: that was queued as the backward began.
            engine = torch.autograd.Variable._execution_engine  # type: ignore[attr-defined]
            engine.queue_callback(functools.partial(contain, _WHAT, self._end))
        one.reached = True

    def _has_none(self, one: BlankInput) -> bool:
        kept = self._kept.get(one.key, ())
        return all(id(each) in kept for each in one.held if _has_gradient(each))

    def _end(self) -> None:
        """Under accumulation gradients may not be reduced yet. They stay: on another rank they may
        be none of zeros, and FSDP2 sums those of one dtype."""
        owner = self._owner()
        last = owner is not None and fsdp2.is_last_backward(owner)
        reduced = []
        for one in [each for each in self._blanks if each.reached and each.alone]:
            if not last or any(map(fsdp2.not_reduced, one.held)):
                self._kept[one.key] = {id(each) for each in one.held if _has_gradient(each)}
            else:
                self._kept.pop(one.key, None)
                reduced.append(one)
        take_back(reduced, () if owner is None else owner.parameters())


def _has_gradient(held: Any) -> bool:
    return held.sharded_param.grad is not None or fsdp2.not_reduced(held)


def take_back(blanks: Sequence[BlankInput], parameters: Iterable[Any] = ()) -> None:
    """Drop the gradients that are zeros, of each alone: of another kind a rank may have had media.
    A rank that holds nothing of one does as with the rest.

    Without a blank a backward in which nothing else has a gradient would have failed. There they
    stay: ranks of whose ``parameters`` none has a gradient do not clip together with those that
    have some. They are walked through in this case alone.
    """
    parts = {one: _filled(one) for one in blanks}
    known = [one for one in blanks if parts[one]]
    norms = [torch.stack(torch._foreach_norm(parts[one], float("inf"))).max() for one in known]
    others = torch.stack(norms).ne(0).tolist() if norms else []
    zeros = [one for one, other in zip(known, others, strict=True) if not other]
    zeros += [one for one in blanks if not parts[one] and len(zeros) == len(known)]
    dropped = {id(each.sharded_param) for one in zeros for each in one.held}
    if any(one.needed for one in zeros) and not _others(parameters, dropped):
        return
    through: dict[int, bool] = {}
    for one in zeros:
        if one.moved and id(one.moved) not in through:  # maybe on another device
            through[id(one.moved)] = bool(torch.stack(list(one.moved)).any())
        if not one.moved or through[id(one.moved)]:
            for each in one.held:
                each.sharded_param.grad = None


def _others(parameters: Iterable[Any], dropped: set[int]) -> bool:
    trained = (p for p in parameters if p.requires_grad and id(p) not in dropped)
    return any(p.grad is not None for p in trained)


def _filled(one: BlankInput) -> list[torch.Tensor]:
    gradients = [each.sharded_param.grad for each in one.held]
    parts = [getattr(each, "_local_tensor", each) for each in gradients if each is not None]
    return [each for each in parts if each.numel()]
