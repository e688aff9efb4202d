"""What a rank under ColossalAI's booster does with a cell, and the oracle of such runs.

Gemini computes in half precision and steps with Adam, so its oracle does: plain torch, one process
for all ranks, averaged gradients, zeros where a rank has none, AdamW on float32 weights. What is
evaluated is the loss; Gemini's model does not generate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

from tests.frameworks.colossalai import cpu, weights
from tools.matrix import families, models, rows
from tools.matrix.cells import Cell
from tools.matrix.digests import digest
from vlmguard.ranks import phase

HALF = torch.bfloat16
RATE = 1e-3
BOUNDS = {"exact": 1e-1, "near": 2e-2, "noise": ("k_proj.bias", "qkv.bias")}
"""Adam divides each gradient by its own size: a rounding of the last bit moves a weight as far as
a gradient does (one element of a LoRA factor of 128: 5 % of its update); a bias of the keys, which
softmax cancels, has no other gradient. Runs that are wrong are off by 100 %."""


def prepare() -> None:
    """Once, before any rank is forked."""
    cpu.install()
    import colossalai  # noqa: F401
    from colossalai.booster import Booster  # noqa: F401
    from colossalai.booster.plugin import GeminiPlugin  # noqa: F401


def work(cell: Cell, folder: str, spoil: int | None = None) -> dict[str, Any]:
    """Train, as a script around the booster does."""
    from colossalai.booster import Booster
    from colossalai.nn.optimizer import HybridAdam

    phase("wrap")
    torch.manual_seed(0)
    model = models.make(cell)
    collate = rows.Collate(families.of(cell.model), models.rows_of(model), spoil)
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    micros = rows.accumulation(cell.order)
    booster = Booster(plugin=_plugin(model, micros > 1))
    optimizer = HybridAdam((p for p in model.parameters() if p.requires_grad), lr=RATE)
    model, optimizer, *_ = booster.boost(model, optimizer)
    data, rank = rows.Rows(rows.flat(cell.order)), torch.distributed.get_rank()
    losses: list[float] = []
    evaluated: list[float] = []
    for number, first in enumerate(range(rank, len(data), rows.WORLD)):
        phase("forward")
        loss = model(**collate([data[first]])).loss
        phase("backward")
        booster.backward(loss / micros, optimizer)
        losses.append(float(loss))
        if (number + 1) % micros == 0:
            phase("step")
            optimizer.step()
            optimizer.zero_grad()
            if cell.order == "between":
                phase("evaluation")
                evaluated.append(_evaluate(model, collate, range(rank, 99, rows.WORLD)))
    phase("weights")
    found = {name: p.numpy().copy() for name, p in weights.gemini(model).items()}
    return {
        "weights": found,
        "trainable": trainable,
        "evaluated": evaluated,
        "tokens": [],
        "digest": digest(found, [*losses, *evaluated]),
    }


def _plugin(model: Any, accumulates: bool) -> Any:
    from colossalai.booster.plugin import GeminiPlugin

    size = sum(p.numel() for p in model.parameters()) // 3
    size += -size % rows.WORLD
    return GeminiPlugin(
        precision="bf16", initial_scale=1.0, max_norm=0.0, enable_async_reduce=False,
        enable_gradient_accumulation=accumulates,
        chunk_config_dict={rows.WORLD: {"chunk_size": size, "keep_gathered": False}},
    )  # fmt: skip


def _evaluate(model: Any, collate: rows.Collate, numbers: range) -> float:
    """The mean loss of this rank's rows."""
    data = rows.evaluated()
    model.eval()
    losses = []
    with torch.no_grad():
        for number in [each for each in numbers if each < len(data)]:
            losses.append(model(**_halved(collate([data[number]]))).loss.item())
    model.train()
    return sum(losses) / len(losses)


def reference(cell: Cell) -> dict[str, Any]:
    """As `reference.reference`, of a run in half precision."""
    torch.set_num_threads(1)
    model = models.make(cell).to(HALF)
    collate = rows.Collate(families.of(cell.model), models.rows_of(model))
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    master = {name: torch.nn.Parameter(p.detach().float()) for name, p in named.items()}
    adam = torch.optim.AdamW(master.values(), lr=RATE, weight_decay=0.0, eps=1e-8)
    before = _arrays(model, master)
    shares = rows.WORLD * rows.accumulation(cell.order)
    data = rows.Rows(rows.flat(cell.order))
    evaluated: list[list[float]] = [[] for _ in range(rows.WORLD)]
    for first in range(0, len(data), shares):
        sums = {name: torch.zeros_like(p) for name, p in master.items()}
        for number in range(first, first + shares):
            model.zero_grad(set_to_none=True)
            loss = model(**_halved(collate([data[number]]))).loss
            (loss / rows.accumulation(cell.order)).backward()
            for name, parameter in named.items():
                if parameter.grad is not None:
                    sums[name] += parameter.grad.float() / rows.WORLD
        for name, parameter in master.items():
            parameter.grad = sums[name]
        adam.step()
        with torch.no_grad():
            for name, parameter in named.items():
                parameter.copy_(master[name])
        for rank in range(rows.WORLD) if cell.order == "between" else ():
            evaluated[rank].append(_evaluate(model, collate, range(rank, 99, rows.WORLD)))
    return {"before": before, "after": _arrays(model, master), "evaluated": evaluated,
            "tokens": [[] for _ in range(rows.WORLD)], **BOUNDS}  # fmt: skip


def _halved(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Floating inputs in the type that the model computes in, as the plug-in hands them on."""
    halved: dict[str, torch.Tensor] = tree_map(_half, batch)
    return halved


def _half(value: Any) -> Any:
    return value.to(HALF) if value.is_floating_point() else value


def _arrays(model: Any, master: dict[str, Any]) -> dict[str, Any]:
    named = model.named_parameters()
    return {n: master.get(n, p).detach().float().numpy().copy() for n, p in named}
