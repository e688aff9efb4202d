"""Optimizers that users have, and arrangements of several."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tools.ordinary import models


def make(kind: str, model: Any, rate: float) -> Any:
    """One of its name."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optim = torch.optim
    match kind:
        case "momentum":
            return optim.SGD(parameters, lr=rate, momentum=0.9, nesterov=True)
        case "fused" | "foreach" | "amsgrad":
            return optim.AdamW(parameters, lr=rate, **{kind: True})
        case "decay":
            return optim.AdamW(parameters, lr=rate, weight_decay=0.5)
        case "Adafactor":
            return transformers.Adafactor(
                parameters, lr=rate, relative_step=False, scale_parameter=False
            )
        case "Lion":
            return Lion(parameters, rate)
        case "low rank":
            return LowRank(parameters, rate)
        case "Muon":
            return Both(model, rate, muon=True)
    return getattr(optim, kind)(parameters, lr=rate)


class Lion(torch.optim.Optimizer):
    """The sign of a moving mean."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                    p.add_((mean * 0.9 + p.grad * 0.1).sign(), alpha=-group["lr"])
                    mean.mul_(0.99).add_(p.grad, alpha=0.01)


class LowRank(torch.optim.Optimizer):
    """As GaLore: matrices move in a subspace of four directions that is renewed now and then."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                gradient = p.grad
                if p.dim() == 2:
                    basis = self.state[p].get("basis")
                    if basis is None:
                        basis = torch.linalg.svd(gradient, full_matrices=False)[0][:, :4]
                        self.state[p]["basis"] = basis
                    gradient = basis @ (basis.T @ gradient)
                p.add_(gradient, alpha=-group["lr"] * 10)


class InBackward:
    """An optimizer a parameter, which steps in its hook; the loop's own step does nothing."""

    def __init__(self, model: Any, rate: float) -> None:
        self.each = {p: torch.optim.SGD([p], lr=rate * 10) for p in model.parameters()}
        for parameter in self.each:
            parameter.register_post_accumulate_grad_hook(self._stepped)

    def _stepped(self, parameter: Any) -> None:
        self.each[parameter].step()
        self.each[parameter].zero_grad()

    @property
    def param_groups(self) -> list[Any]:
        return [group for each in self.each.values() for group in each.param_groups]

    def step(self) -> None: ...

    def zero_grad(self) -> None: ...


class Both:
    """An optimizer for the towers, or for matrices, and one for the rest; the first one rests every
    other step, unless it is Muon."""

    def __init__(self, model: Any, rate: float, muon: bool = False) -> None:
        named = list(model.named_parameters())
        first = [p for n, p in named if (p.dim() == 2 if muon else models.is_tower(n))]
        chosen = set(map(id, first))
        rest = [p for _, p in named if id(p) not in chosen]
        kind = torch.optim.Muon if muon else torch.optim.AdamW
        self.muon, self.count = muon, 0
        self.optimizers = [kind(first, lr=rate), torch.optim.AdamW(rest, lr=rate)]

    @property
    def param_groups(self) -> list[Any]:
        return [group for each in self.optimizers for group in each.param_groups]

    def step(self) -> None:
        rests = self.count % 2 == 1 and not self.muon
        for optimizer in self.optimizers[rests:]:
            optimizer.step()
        self.count += 1

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()
