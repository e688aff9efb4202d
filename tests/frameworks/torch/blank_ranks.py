"""Trains tiny real models in real ranks that have different kinds of rows, and compares their
weight updates with plain torch in one process: one JSON line a cell.

    python tests/frameworks/torch/blank_ranks.py CELL…     CELL: family/strategy/tuning/plan/guard

strategy: zero1, zero2, zero3, fsdp2; an `@3` behind it for three ranks.
tuning: trained, frozen (tower and aligner), tower (the tower alone frozen), lora (both frozen);
a `+ckpt` behind it checkpoints without reentrance, `+reentrant` with.
guard: off, before (the blank input put on before the model is wrapped), after; tried (as before,
and made as a trial on a small copy proved it, which a guarded run does); alone (as before,
and it fails on rank 1 and on no other), told (the same, and rank 1 asks the others).
Imports everything once and forks the ranks of each cell.
"""

from __future__ import annotations

import functools
import gc
import json
import logging
import sys
from dataclasses import dataclass
from typing import Any

import deepspeed
import numpy as np
import peft
import torch
import transformers
from torch.distributed.fsdp import fully_shard

from tests.kit import vlms
from tools.lab.strategies import RATE
from vlmguard.core.facts import Run
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.ranks import phase, run
from vlmguard_torch.blank import blank_input, neutral, rank_divergence
from vlmguard_torch.layout import towers


def one(rank: int, step: int, world: int) -> bool:
    return rank == step % world


def every(rank: int, step: int, world: int) -> bool:
    return True


def none(rank: int, step: int, world: int) -> bool:
    return False


def others(rank: int, step: int, world: int) -> bool:
    return not one(rank, step, world)


PLANS: dict[str, list[Any]] = {
    # Each entry a step, of one micro-batch or two: which ranks have an image.
    "differ": [(one,), (one,), (one,)],
    "phases": [(every,), (none,), (every,)],
    "most": [(one, others), "eval", (every, every), (none, none), (one, none)],
    "generate": [(one,), "generate", (others,)],
}
LENGTHS = 3, 2
"""New tokens of rank 0, and how many more each rank after it."""


@dataclass(frozen=True)
class Cell:
    family: str
    strategy: str
    tuning: str
    plan: str
    guard: str
    world: int

    @classmethod
    def parse(cls, text: str) -> Cell:
        family, strategy, tuning, plan, guard = text.split("/")
        strategy, _, world = strategy.partition("@")
        return cls(family, strategy, tuning, plan, guard, int(world or 2))

    @property
    def steps(self) -> list[Any]:
        return PLANS[self.plan]

    @property
    def accumulation(self) -> int:
        return max(len(step) for step in self.steps if not isinstance(step, str))


def make(cell: Cell, checkpointed: bool = True) -> Any:
    """The model, tuned as told."""
    model = vlms.FAMILIES[cell.family].model()
    tuning, _, how = cell.tuning.partition("+")
    kinds = {"frozen": {"vision", "aligner"}, "tower": {"vision"}}.get(tuning, set())
    paths = towers.by_name(model)
    for name, parameter in model.named_parameters():
        if towers.kind_of(name, paths) in kinds:
            parameter.requires_grad_(False)
    if tuning == "lora":
        torch.manual_seed(5)
        only = r".*(language_model|text_model).*\.(q_proj|v_proj|up_proj)"
        told = peft.LoraConfig(r=4, init_lora_weights=False, target_modules=only)
        model = peft.get_peft_model(model, told)
    if how and checkpointed:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable({"use_reentrant": how == "reentrant"})
    return model.train()


def row(cell: Cell, model: Any, rank: int, number: int, image: bool) -> dict[str, torch.Tensor]:
    family = vlms.FAMILIES[cell.family]
    return vlms.row(family, towers.without_adapters(model), 1000 * number + rank, image)


def evaluate(cell: Cell, model: Any, rank: int, number: int) -> float:
    """Mean loss of two mixed rows."""
    model.eval()
    rows = [row(cell, model, rank, 70 + number + k, one(rank, k, cell.world)) for k in range(2)]
    with torch.no_grad():
        losses = [model(**each).loss.item() for each in rows]
    model.train()
    return sum(losses)


def generate(cell: Cell, model: Any, rank: int, number: int, **how: Any) -> list[int]:
    """New tokens, ranks ending at different lengths."""
    told = row(cell, model, rank, 50 + number, one(rank, 0, cell.world))
    told.pop("labels")
    model.eval()
    tokens = LENGTHS[0] + LENGTHS[1] * rank
    with torch.no_grad():
        out = model.generate(
            **told, max_new_tokens=tokens, do_sample=False, eos_token_id=None, pad_token_id=0, **how
        )
    model.train()
    return out[0, vlms.LENGTH :].tolist()


class Zero:
    """DeepSpeed; its buckets scaled down, or a tiny model would fit into one."""

    def __init__(self, model: Any, stage: int, accumulation: int) -> None:
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": accumulation,
            "gradient_clipping": 0.0,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "zero_optimization": {
                "stage": stage,
                "overlap_comm": False,
                "reduce_bucket_size": 1000,
                "allgather_bucket_size": 1000,
                "stage3_prefetch_bucket_size": 1000,
                "stage3_param_persistence_threshold": 0,
                "stage3_max_live_parameters": 1000,
                "stage3_max_reuse_distance": 1000,
            },
        }
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], RATE)
        self.stage = stage
        self.engine = deepspeed.initialize(
            model=model, optimizer=optimizer, config=config, dist_init_required=False
        )[0]
        self.module = self.engine.module

    def train(self, batch: Any, last: bool) -> float:
        loss = self.engine(**batch).loss
        self.engine.backward(loss)
        self.engine.step()
        return loss.item()

    def weights(self) -> dict[str, np.ndarray]:
        found = {}
        for name, parameter in self.module.named_parameters():
            with deepspeed.zero.GatheredParameters([parameter], enabled=self.stage == 3):
                found[name] = parameter.detach().numpy().copy()
        return found


class Sharded:
    """FSDP2 as accelerate does it: what a model names as not to be split, and itself."""

    def __init__(self, model: Any, accumulation: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
        names = towers.without_adapters(model)._no_split_modules or ()
        for module in reversed(list(model.modules())):
            if type(module).__name__ in names:
                fully_shard(module, mesh=mesh)
        fully_shard(model, mesh=mesh)
        self.module = model
        self.accumulation = accumulation
        trained = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trained, RATE)

    def train(self, batch: Any, last: bool) -> float:
        self.module.set_requires_gradient_sync(last)
        loss = self.module(**batch).loss
        (loss / self.accumulation).backward()
        if last:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.item()

    def weights(self) -> dict[str, np.ndarray]:
        for module in self.module.modules():
            if hasattr(module, "reshard"):
                module.reshard()
        named = self.module.named_parameters()
        return {name: p.detach().full_tensor().numpy().copy() for name, p in named}


def _goes_on(fault: str) -> None:
    """As without the question."""


def _asks(strategy: Any, fault: str) -> None:
    """What a guarded run does."""
    rank_divergence.WAIT = 1.5  # less than what counts as a hang here
    run_ = Run("x", {}, strategy, torch.distributed.get_world_size(), may_be_unused="yes")
    rank_divergence.judge(RunState(Settings(), run=run_), 0, fault)


def _fails(*_: Any) -> Any:
    raise RuntimeError("no memory for a blank image")


def work(cell: Cell, rank: int) -> dict[str, Any]:
    """What a rank does; its losses, tokens and weights."""
    phase("wrap")
    model = make(cell)
    when = "always" if cell.strategy in ("zero3", "fsdp2") else "training"
    handle = None
    if cell.guard in ("before", "alone", "told", "tried"):
        failed = functools.partial(_asks, cell.strategy) if cell.guard == "told" else _goes_on
        proven: dict[str, Any] = {}
        if cell.guard == "tried":
            proven = neutral.recipe(model, neutral.observed(model, ("image",)))
        handle = blank_input.install(model, when=when, failed=failed, **proven)
    if cell.guard in ("alone", "told") and rank == 1:
        handle._runner.run = _fails
    if cell.strategy == "fsdp2":
        wrapped: Any = Sharded(model, cell.accumulation)
    else:
        wrapped = Zero(model, int(cell.strategy[-1]), cell.accumulation)
    if cell.guard == "after":
        handle = blank_input.install(wrapped.module, when=when)
    seen: list[Any] = []
    for number, step in enumerate(cell.steps):
        if step == "eval":
            phase(f"evaluation {number}")
            seen.append(evaluate(cell, wrapped.module, rank, number))
        elif step == "generate":
            phase(f"generation {number}")
            tokens = generate(cell, wrapped.module, rank, number, synced_gpus=True)
            seen.append(tokens)
        else:
            for micro, images in enumerate(step):
                phase(f"step {number}, micro-step {micro}")
                image = images(rank, number, cell.world)
                batch = row(cell, model, rank, 10 * number + micro, image)
                seen.append(wrapped.train(batch, micro == len(step) - 1))
    phase("weights")
    padded, fault = (handle.padded, handle.fault) if handle else (0, "")
    return {"seen": seen, "weights": wrapped.weights(), "padded": padded, "fault": fault}


def reference(cell: Cell) -> dict[str, Any]:
    """The same in one process: gradients averaged over ranks and micro-steps, nothing else."""
    model = make(cell, checkpointed=False)
    named = dict(model.named_parameters())
    before = {name: p.detach().numpy().copy() for name, p in named.items()}
    optimizer = torch.optim.SGD([p for p in named.values() if p.requires_grad], RATE)
    seen: list[list[Any]] = [[] for _ in range(cell.world)]
    for number, step in enumerate(cell.steps):
        for rank in range(cell.world):
            if step == "eval":
                seen[rank].append(evaluate(cell, model, rank, number))
            elif step == "generate":
                seen[rank].append(generate(cell, model, rank, number))
            else:
                for micro, images in enumerate(step):
                    image = images(rank, number, cell.world)
                    loss = model(**row(cell, model, rank, 10 * number + micro, image)).loss
                    (loss / cell.world / len(step)).backward()
                    seen[rank].append(loss.item())
        if not isinstance(step, str):
            optimizer.step()
            optimizer.zero_grad()
    after = {name: p.detach().numpy().copy() for name, p in named.items()}
    return {"before": before, "after": after, "seen": seen}


def compare(cell: Cell, ended: Any, ref: dict[str, Any]) -> dict[str, Any]:
    """The verdict, and the largest relative error of a tensor's update over all ranks."""
    told = {"verdict": ended.verdict, "seconds": round(ended.seconds, 1)}
    if ended.verdict != "ok":
        cause = ended.cause
        told["cause"] = f"{cause.error}: {cause.message}"[:300] if cause else ""
        told["sites"] = [f"{site.phase}: {site.call}" for site in ended.sites]
        return told
    values = [outcome.value for outcome in ended.outcomes]
    errors = [
        _error(value["weights"][name], before, ref["after"][name])
        for value in values
        for name, before in ref["before"].items()
    ]
    losses, tokens = 0.0, True
    for value, expected in zip(values, ref["seen"], strict=True):
        for one_, other in zip(value["seen"], expected, strict=True):
            if isinstance(other, list):
                tokens = tokens and one_ == other
            else:
                losses = max(losses, abs(one_ - other))
    return {
        **told,
        "update": max(errors),
        "losses": losses,
        "tokens": tokens,
        "padded": [value["padded"] for value in values],
        "fault": next((value["fault"] for value in values if value["fault"]), ""),
    }


def _error(now: np.ndarray, before: np.ndarray, after: np.ndarray) -> float:
    """Relative to the update; of a tensor that is not to move, absolute."""
    moved = float(np.linalg.norm(after - before))
    return float(np.linalg.norm(now - after)) / (moved if moved > 1e-5 else 1.0)


def _quiet() -> None:
    transformers.logging.set_verbosity_error()
    logging.disable(logging.INFO)
    # Would compile a shared-memory kernel in every rank behind a file lock: looks like a hang.
    vars(sys.modules["deepspeed.comm.torch"])["build_shm_op"] = lambda: None
    gc.collect()
    gc.freeze()


def main() -> None:
    """One line a cell. The parent never computes: torch's threads do not survive a fork."""
    torch.set_num_threads(1)
    _quiet()
    references: dict[tuple[str, ...], Any] = {}
    for text in sys.argv[1:]:
        cell = Cell.parse(text)
        key = cell.family, cell.tuning.partition("+")[0], cell.plan, str(cell.world)
        if key not in references:
            alone = run(lambda _, c=cell: reference(c), 1, "none").outcomes[0]
            if alone.state != "returned":
                sys.exit(f"{text}: no reference: {alone.error}: {alone.message}")
            references[key] = alone.value
        ended = run(lambda rank, c=cell: work(c, rank), cell.world, "gloo", 60)
        print(json.dumps({"cell": text, **compare(cell, ended, references[key])}), flush=True)


if __name__ == "__main__":
    main()
