"""The first step's gradients beside those of a loss in plain torch, from logits and labels.

A reference of the same framework shares a wrong scale with the run that it judges. Here each
micro-batch's gradient is held against that of its mean cross-entropy: it is a share of it, and the
shares of a step are 1 together, whichever mean of its tokens or batches the framework takes. A
gradient that points elsewhere belongs to another objective, and is not judged.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

ELSEWHERE = 0.01
"""A gradient that is this far from any multiple of the plain one is of another objective."""
_OTHERS = ("labels", "loss_scale", "compute_loss_func", "channel", "num_items_in_batch")


def beside(told: dict[str, Any]) -> None:
    """Measure it in each micro-batch of the first step of a reference.

    ``told["plain"]`` is the sum of the shares so far, None once a gradient points elsewhere.
    """
    import transformers

    told["plain"] = 0.0
    step = transformers.Trainer.training_step

    @functools.wraps(step)
    def beside_it(self: Any, model: Any, inputs: Any, *args: Any, **named: Any) -> Any:
        if told["steps"] or told["plain"] is None:
            return step(self, model, inputs, *args, **named)
        wanted = gradients(model, inputs, self.args.label_smoothing_factor)
        before = _now(model)
        loss = step(self, model, inputs, *args, **named)
        share = _share(before, _now(model), wanted) if wanted else None
        told["plain"] = None if share is None else told["plain"] + share
        return loss

    transformers.Trainer.training_step = beside_it


def _now(model: Any) -> dict[str, Any]:
    named = model.named_parameters()
    return {name: each.grad.detach().clone() for name, each in named if each.grad is not None}


def gradients(model: Any, inputs: Mapping[str, Any], smoothing: float) -> dict[str, Any]:
    """Of the micro-batch's mean cross-entropy; {} where that cannot be said."""
    import torch

    state = torch.get_rng_state()
    try:
        with contextlib.suppress(Exception):
            return _plain(model, inputs, smoothing)
        return {}
    finally:
        torch.set_rng_state(state)


def _plain(model: Any, inputs: Mapping[str, Any], smoothing: float) -> dict[str, Any]:
    import torch

    labels = inputs["labels"]
    given = {name: value for name, value in inputs.items() if name not in _OTHERS}
    model.train()
    logits = model(**given).logits.float()[:, :-1]
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels[:, -logits.shape[1] :].reshape(-1),
        label_smoothing=smoothing,
    )  # fmt: skip
    named = {name: each for name, each in model.named_parameters() if each.requires_grad}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: each for name, each in zip(named, found, strict=True) if each is not None}


def _share(
    before: Mapping[str, Any], after: Mapping[str, Any], wanted: Mapping[str, Any]
) -> float | None:
    """What was added, as a multiple of what was wanted; None where it is no multiple."""
    added = {name: grad - before[name] if name in before else grad for name, grad in after.items()}
    product = sum(float((grad * wanted[name]).sum()) for name, grad in added.items()
                  if name in wanted)  # fmt: skip
    size = sum(float((grad * grad).sum()) for grad in wanted.values())
    whole = sum(float((grad * grad).sum()) for grad in added.values())
    if not size or not whole:
        return None
    return product / size if whole - product * product / size < ELSEWHERE**2 * whole else None


def across(told: dict[str, Any], trainer: Any) -> None:
    """As `beside`, for a ``trainer`` of ranks together: the first step's gradient, when all ranks
    have averaged theirs, as a sum of shares of all ranks' micro-batches' plain ones.

    ``told["plain"]`` is the sum of these shares; None where the gradient points elsewhere. The same
    collectives are asked for on every rank.
    """
    import transformers

    told["plain"] = None
    wanted: list[Any] = []
    step = trainer.training_step

    @functools.wraps(step)
    def beside_it(model: Any, inputs: Any, *args: Any, **named: Any) -> Any:
        if not told["steps"]:
            smoothing = trainer.args.label_smoothing_factor
            wanted.append(flat(trainer.model, gradients(trainer.model, inputs, smoothing)))
        return step(model, inputs, *args, **named)

    class Before(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            if not told["steps"]:
                told["plain"] = shares(trainer.model, wanted)

    trainer.training_step = beside_it
    trainer.add_callback(Before())


def flat(model: Any, gradients: Mapping[str, Any]) -> Any:
    import torch

    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    parts = [gradients[name] if name in gradients else torch.zeros_like(each)
             for name, each in named]  # fmt: skip
    return torch.cat([part.detach().reshape(-1).float() for part in parts])


def shares(model: Any, wanted: list[Any]) -> float | None:
    """The sum of the shares that ``model``'s gradients now are of all ranks' ``wanted`` ones, each
    made by `flat`: by least squares; None where much is left over."""
    import torch
    import torch.distributed as dist

    added = flat(model, _now(model))
    most = torch.tensor([len(wanted)])
    if together := dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(most, dist.ReduceOp.MAX)
    own = torch.stack([*wanted, *[torch.zeros_like(added)] * (int(most) - len(wanted))])
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())] if together else [own]
    if together:
        dist.all_gather(every, own)
    parts, whole = torch.cat(every).double(), added.double()
    found = torch.linalg.pinv(parts @ parts.T, hermitian=True) @ (parts @ whole)
    size, left = whole.norm(), (whole - found @ parts).norm()
    return float(found.sum()) if size and left < ELSEWHERE * size else None
