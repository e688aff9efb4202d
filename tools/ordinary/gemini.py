"""A script around ColossalAI's booster and Gemini."""

from __future__ import annotations

from typing import Any

import torch

from tests.frameworks.colossalai import cpu, weights
from tools.matrix import families
from tools.ordinary import account, heard, models, rows
from tools.ordinary.draws import Draw

RATE = 1e-3
cpu.install()


def work(draw: Draw, folder: str) -> dict[str, Any]:
    """Train as drawn; what the run came to."""
    import colossalai
    from colossalai.booster import Booster
    from colossalai.nn.optimizer import HybridAdam

    colossalai.launch_from_torch(backend="gloo")
    torch.manual_seed(1)
    model = models.make(draw)
    collate = rows.Collate(families.of(draw.model), model)
    booster = Booster(plugin=_plugin(model, draw))
    optimizer = HybridAdam((p for p in model.parameters() if p.requires_grad), lr=RATE)
    model, optimizer, *_ = booster.boost(model, optimizer)
    losses, evaluated = _trained(draw, booster, model, optimizer, collate)
    moved = {name: account._digest(p.float().numpy().tobytes())
             for name, p in weights.gemini(model).items()}  # fmt: skip
    weak = account.weakly(model, optimizer, booster)
    # A booster has no end: while its model lives, hooks that watch it may stay.
    found = {"weights": moved, "log": losses, "random": account._random()}
    model = optimizer = booster = None
    told = {"heard": heard.told(), "evaluated": evaluated}
    return found | account.left(weak) | told


def _trained(
    draw: Draw, booster: Any, model: Any, optimizer: Any, collate: Any
) -> tuple[list[str], int]:
    """Losses as hexadecimal numbers, and how many batches were evaluated."""
    kinds = rows.plan(draw, draw.steps * draw.accumulation)
    data, rank, losses, evaluated = rows.Rows(kinds), torch.distributed.get_rank(), [], 0
    held = [(1000 + number, "image") for number in range(2 * draw.world)]
    for micro in range(draw.steps * draw.accumulation):
        first = (micro * draw.world + rank) * draw.batch
        batch = collate([data[number] for number in range(first, first + draw.batch)])
        loss = model(**batch).loss
        booster.backward(loss / draw.accumulation, optimizer)
        losses.append(float(loss).hex())
        if (micro + 1) % draw.accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()
        if draw.has("evaluation") and (micro + 1) % (5 * draw.accumulation) == 0:
            model.eval()
            with torch.no_grad():
                for row in held[rank :: draw.world]:
                    losses.append(float(model(**collate([row])).loss).hex())
                    evaluated += 1
            model.train()
    return losses, evaluated


def _plugin(model: Any, draw: Draw) -> Any:
    from colossalai.booster.plugin import GeminiPlugin

    size = sum(p.numel() for p in model.parameters()) // 3
    size += -size % draw.world
    return GeminiPlugin(
        precision="bf16", initial_scale=1.0, max_norm=0.0, enable_async_reduce=False,
        enable_gradient_accumulation=draw.accumulation > 1,
        chunk_config_dict={draw.world: {"chunk_size": size, "keep_gathered": False}},
    )  # fmt: skip
