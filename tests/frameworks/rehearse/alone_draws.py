"""Healthy ZeRO-3 runs whose shapes do not divide, drawn: of each fifth two ranks, of all one alone.

    python alone_draws.py SEED FIRST COUNT        one line of JSON a draw

In one process that imports DeepSpeed once; every rank is forked from it.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from vlmguard.check.deep.sandbox import CPU

os.environ.update(CPU)
import deepspeed
import deepspeed.runtime.zero.stage3
import torch

from vlmguard.ranks import RankEnvironment, not_engaged, phase, run, step_phases
from vlmguard.ranks.outcome import parting

importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
for lazily in ("torch._dynamo", "torch._inductor.compile_fx", "torch.distributed.fsdp",
               "deepspeed.runtime.zero.muon.muon_optimizer"):  # fmt: skip
    importlib.import_module(lazily)  # here once, not in every rank
torch.set_num_threads(1)
SIZES = (8, 64, 512)


@dataclass(frozen=True)
class Draw:
    """One run: widths of its layers, and how it is trained."""

    size: int
    widths: tuple[int, ...]
    dtype: str
    optimizer: str
    clipping: float
    accumulation: int
    persistence: int
    frozen: bool
    checkpointed: bool
    inside: bool
    """Built under `zero.Init`, each weight partitioned as it is made."""


def draw(seed: int, number: int) -> Draw:
    pick = random.Random(f"{seed} {number}")
    widths = tuple(pick.choice((1, 3, 5, 7, 13, 31, 33, 67)) for _ in range(pick.randint(2, 5)))
    return Draw(
        SIZES[number % 3], widths, pick.choice(("float32", "bfloat16")),
        pick.choice(("SGD", "AdamW", "Adagrad", "RMSprop")), pick.choice((0.0, 1.0)),
        pick.randint(1, 3), pick.choice((0, 10, 50)), pick.random() < 0.3,
        pick.random() < 0.5, pick.random() < 0.7,
    )  # fmt: skip


class Net(torch.nn.Module):
    """Blocks of odd widths, each with a scalar of its own."""

    def __init__(self, widths: tuple[int, ...], checkpointed: bool):
        super().__init__()
        pairs = zip((4, *widths), (*widths, 2), strict=True)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in pairs)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(b) for b in (*widths, 2))
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.checkpointed = checkpointed

    def forward(self, x):
        for number, (block, norm) in enumerate(zip(self.blocks, self.norms, strict=True)):
            step = lambda x, block=block, norm=norm: torch.tanh(norm(block(x)))  # noqa: E731
            if self.checkpointed and number:
                x = torch.utils.checkpoint.checkpoint(step, x, use_reentrant=False)
            else:
                x = step(x)
        return (x * self.scale).sum()


def work(one: Draw):
    def rank(number: int) -> dict:
        step_phases.told_by()
        torch.manual_seed(0)
        config = {
            "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": one.accumulation,
            "gradient_clipping": one.clipping, "bf16": {"enabled": one.dtype == "bfloat16"},
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": 3, "reduce_bucket_size": 50,
                                  "stage3_param_persistence_threshold": one.persistence},
        }  # fmt: skip
        deepspeed.init_distributed("gloo")
        with deepspeed.zero.Init(config_dict_or_path=config, enabled=one.inside):
            net = Net(one.widths, one.checkpointed)
        for block in net.blocks[:1] if one.frozen else ():
            block.requires_grad_(False)
        trains = [p for p in net.parameters() if p.requires_grad]
        optimizer = getattr(torch.optim, one.optimizer)(trains, lr=0.01)
        engine, *_ = deepspeed.initialize(model=net, optimizer=optimizer, config=config)
        steps = 0
        for _ in range(2 * one.accumulation):
            x = torch.ones(2, 4, dtype=getattr(torch, one.dtype))
            phase("forward")
            loss = engine(x)
            engine.backward(loss)
            steps += engine.is_gradient_accumulation_boundary()
            engine.step()
        return {"steps": steps, "skipped": engine.skipped_steps, "finite": bool(loss.isfinite())}

    return rank


def looked(one: Draw, together: bool) -> dict:
    """What two ranks and the two alone did; "fault": the false alarm, "" without one.

    together: whether two ranks on the referee show that it is healthy, as its code says.
    """
    begun = time.monotonic()
    answer = {**asdict(one), "two": "", "fault": ""}
    if together:
        result = run(work(one), 2, "referee", 240)
        cause = result.cause
        told = f"{cause.error}: {cause.message}" if cause else str(result.sites)
        answer |= {"two": result.verdict, "message": "" if result.verdict == "ok" else told}
    with tempfile.TemporaryDirectory() as folder:
        tape = Path(folder, "tape")
        found = [
            run(work(one), 1, "none", 240, RankEnvironment(r, one.size, 8, tape)) for r in (0, 1)
        ]
    for rank, result in enumerate(found):
        if result.verdict != "ok":
            cause = result.cause
            told = f"{cause.error}: {cause.message}" if cause else ""
            answer["fault"] = f"rank {rank}: {result.verdict}: {told}"[:300]
        elif not_engaged("zero3", result.calls, 1):
            answer["fault"] = not_engaged("zero3", result.calls, 1)
        elif result.outcomes[0].value != {"steps": 2, "skipped": 0, "finite": True}:
            answer["fault"] = f"rank {rank}: {result.outcomes[0].value}"
    if not answer["fault"] and parting([result.calls[0] for result in found]):
        answer["fault"] = "ranks part"
    return {**answer, "seconds": round(time.monotonic() - begun, 1)}


if __name__ == "__main__":
    seed, first, count = map(int, sys.argv[1:])
    for number in range(first, first + count):
        told = looked(draw(seed, number), together=number % 5 == 0)
        print(json.dumps({"number": number, **told}), flush=True)
