"""FSDP2: a tower for which no rank had an input keeps no gradient, as without the blank input. Nor
do layers of cross-attention that would have read what it returns.

The blank input leaves gradients of zeros. An optimizer with momentum moves a weight whose gradient
is zero, and leaves one alone that has no gradient. What other ranks had is known from the reduced
gradient alone. To read it waits for the device, once in a backward behind a blank input, and once
more for such layers. ZeRO-3 moves all weights anyway, and DDP takes no blank input.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from vlmguard.runtime.faults import contain
from vlmguard_torch import calls
from vlmguard_torch.layout import fsdp2


def watch(
    owner: Any,
    parameters: Iterable[Any],
    features: Sequence[torch.Tensor],
    moved: Sequence[torch.Tensor] = (),
) -> bool:
    """A blank input has run in a forward, and ``features`` of it lead to ``parameters``. Returns
    whether their gradients may be taken back.

    Where one of these has a gradient already, of zeros perhaps, it is the user's to keep: an
    earlier micro-batch may have had an image without a target. So it is if ``moved``, of which all
    is known by the backward, holds truth values and none is true: a new Mllama's gates are zero and
    let nothing through. One rank may then hold zeros alone of what an image leaves, another not.
    """
    reached = [each for each in features if each.requires_grad]
    if not reached or not torch.is_grad_enabled() or calls.is_compiling():
        return False
    known = fsdp2.by_parameter(owner)
    held = [known[id(p)] for p in parameters if p.requires_grad and id(p) in known]
    if not held or any(map(fsdp2.gradients, held)):
        return False
    queued: list[bool] = []

    def arrived(gradient: Any) -> None:
        if not queued:
            queued.append(True)
            contain("gradients of a blank input", _behind_fsdp, held, moved)

    for each in reached:
        each.register_hook(arrived)
    return True


def _behind_fsdp(held: Sequence[Any], moved: Sequence[torch.Tensor]) -> None:
    """At the backward's end. FSDP2's own call, which reduces, was queued when it began."""
    engine = torch.autograd.Variable._execution_engine  # type: ignore[attr-defined]
    engine.queue_callback(
        functools.partial(contain, "gradients of a blank input", _take_back, held, moved)
    )


def _take_back(held: Sequence[Any], moved: Sequence[torch.Tensor]) -> None:
    """If all that came of it is zeros. Under accumulation they may not be reduced yet: the last
    micro-batch runs the tower again, and leaves all ranks a gradient to reduce."""
    gradients = [gradient for each in held for gradient in fsdp2.gradients(each)]
    parts = [getattr(each, "_local_tensor", each) for each in gradients]
    filled = [each for each in parts if each.numel()]
    if filled and bool((torch.stack(torch._foreach_norm(filled, float("inf"))) != 0).any()):
        return
    if moved and not bool(torch.stack(list(moved)).any()):  # may lie elsewhere than gradients do
        return
    for each in held:
        fsdp2.drop_gradients(each)
