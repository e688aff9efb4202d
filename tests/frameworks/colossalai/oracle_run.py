"""The oracle: plain torch, one process for all ranks, nothing of ColossalAI's or of the guard's.

Each rank's batch goes through one half-precision model in turn; the gradients are averaged in that
precision, zeros stand for those that a rank has none of, and torch's own AdamW moves float32
weights with them. It knows nothing of chunks, hooks or a dummy image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import weights
from torch.utils._pytree import tree_map

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Averaged:
    """One model that is trained as ``world`` ranks would."""

    def __init__(self, model: torch.nn.Module, case: dict[str, Any], world: int) -> None:
        self.model = model.to(HALVES[case["precision"]])
        self.model.register_forward_pre_hook(self._halved, with_kwargs=True)
        self.case, self.world = case, world
        self.master = {
            name: torch.nn.Parameter(p.detach().float()) for name, p in self._trained()
        }
        self.sums = [
            {name: torch.zeros_like(p) for name, p in self._trained()} for _ in range(world)
        ]
        self.adam = torch.optim.AdamW(
            self.master.values(), lr=case["lr"], weight_decay=case["decay"], eps=1e-8
        )

    def _halved(self, model: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Floating inputs in the type that the model computes in, as the plug-ins hand them on."""
        return tree_map(self._half, args), tree_map(self._half, kwargs)

    def _half(self, value: Any) -> Any:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(HALVES[self.case["precision"]]) if floating else value

    def _trained(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]

    def add(self, rank: int, loss: torch.Tensor) -> None:
        """One rank's backward of one micro-batch."""
        self.model.zero_grad(set_to_none=True)
        (loss / self.case["accumulate"]).backward()
        for name, parameter in self._trained():
            if parameter.grad is not None:
                self.sums[rank][name] += parameter.grad

    def step(self) -> None:
        """Low-level ZeRO clips; Gemini with its optimizer on the CPU clips in fp16 alone."""
        clips = self.case["plugin"] == "low_level_zero" or self.case["precision"] == "fp16"
        means = {name: self._mean(name).float() for name in self.master}
        norm = torch.stack([mean.norm() for mean in means.values()]).norm()
        most = self.case["max_norm"]
        factor = min(1.0, most / (norm.item() + 1e-6)) if clips and most else 1.0
        for name, parameter in self.master.items():
            parameter.grad = means[name] * factor
        self.adam.step()
        with torch.no_grad():
            for name, parameter in self._trained():
                parameter.copy_(self.master[name])
                if not self.case["master_weights"]:  # the half-precision weight is the only one
                    self.master[name].copy_(parameter)
        for totals in self.sums:
            for total in totals.values():
                total.zero_()

    def _mean(self, name: str) -> torch.Tensor:
        total = self.sums[0][name].clone()
        for other in self.sums[1:]:
            total += other[name]
        return total / self.world

    def weights(self) -> dict[str, torch.Tensor]:
        """By name what `weights` reads: under Gemini what the optimizer holds, else the model's."""
        held = self.master if self.case["plugin"] == "gemini" else {}
        return {
            name: weights.plain(held.get(name, parameter))
            for name, parameter in self.model.named_parameters()
        }


def train(
    model: torch.nn.Module,
    case: dict[str, Any],
    out: dict[str, Any],
    place: tuple[int, int],
    loss_of: Callable[[Any, str, int, int], torch.Tensor],
) -> None:
    """The steps of ``case``, for all ranks; ``out`` gets what rank ``place[0]`` would write.

    loss_of: (model, kind of batch, step, rank) → the loss of that rank's batch.
    """
    mine, world = place
    averaged = Averaged(model, case, world)
    out["wrapped"], out["before"], out["losses"] = "plain", averaged.weights(), []
    for step, what in enumerate(case["steps"]):
        for rank in range(world):
            kind = what if isinstance(what, str) else what[rank % len(what)]
            loss = loss_of(averaged.model, kind, step, rank)
            averaged.add(rank, loss)
            if rank == mine:
                out["losses"].append(float(loss))
        if (step + 1) % case["accumulate"] == 0:
            averaged.step()
    out["after"], out["stage"] = averaged.weights(), "done"
