"""Silent errors of what trains, of the optimizer and of weights."""

from __future__ import annotations

from typing import Any

import torch

from tools.ledger.catalogue import injection
from tools.ledger.injections_gradients import lora
from tools.ledger.training import Run
from tools.ordinary import models


@injection(11, "VG650", "VG651")
def before_adapters(run: Run) -> None:
    """The optimizer was made before LoRA was put on the model"""
    kept: list[Any] = []
    run.prepared += [lambda model: kept.extend(model.parameters()), lora]
    if run.faulty:
        run.optimizer = lambda run, model: torch.optim.AdamW(kept, lr=run.rate)


@injection(11, "VG650", "VG651", world=2)
def before_sharding(run: Run) -> None:
    """The optimizer was made before FSDP2 replaced the parameters"""
    run.strategy, kept = "fsdp2", []
    run.prepared.append(lambda model: kept.extend(model.parameters()))
    if run.faulty:
        run.optimizer = lambda run, model: torch.optim.AdamW(kept, lr=run.rate)


def _halves(model: Any) -> list[list[Any]]:
    named = list(model.named_parameters())
    return [[p for n, p in named if models.is_tower(n) is sees] for sees in (True, False)]


@injection(12, "VG650")
def tower_left_out(run: Run) -> None:
    """The optimizer holds the language model alone"""
    if run.faulty:
        run.optimizer = lambda run, model: torch.optim.AdamW(_halves(model)[1], lr=run.rate)


@injection(12, seen="update.towers.vision.lr")
def towers_rate(run: Run) -> None:
    """The tower trains at the language model's learning rate, not its own"""

    def groups(run: Run, model: Any) -> Any:
        tower, rest = _halves(model)
        rate = run.rate if run.faulty else run.rate / 10
        return torch.optim.AdamW([{"params": tower, "lr": rate}, {"params": rest}], lr=run.rate)

    run.optimizer = groups


@injection(13, "VG630")
def tower_under_no_grad(run: Run) -> None:
    """The tower's forward has torch.no_grad on it"""

    def blind(model: Any) -> None:
        if run.faulty:
            tower = model.model.visual
            tower.forward = torch.no_grad()(tower.forward)

    run.prepared.append(blind)


@injection(13, "VG630")
def tower_detached(run: Run) -> None:
    """What the tower gives is detached"""
    run.family = "llava"

    def cut(model: Any) -> None:
        if run.faulty:
            model.model.vision_tower.register_forward_hook(_detached)

    run.prepared.append(cut)


def _detached(module: Any, args: Any, output: Any) -> Any:
    for key, value in list(output.items()):
        if torch.is_tensor(value):
            output[key] = value.detach()
        elif isinstance(value, tuple):
            output[key] = tuple(each if each is None else each.detach() for each in value)
    return output


@injection(14)
def last_layer(run: Run) -> None:
    """LLaVA takes the tower's last layer but one: the last one never trains"""
    run.family = "llava"

    def chosen(model: Any) -> None:
        model.config.vision_feature_layer = -2 if run.faulty else -1

    run.prepared.append(chosen)


@injection(15, seen="towers.vision.trainable")
def missed_by_the_flag(run: Run) -> None:
    """The tower is frozen, but for its position embedding"""
    run.family = "qwen3_vl"

    def freeze(model: Any) -> None:
        for name, parameter in model.named_parameters():
            if "visual" in name and not (run.faulty and "pos_embed" in name):
                parameter.requires_grad_(False)

    run.prepared.append(freeze)


@injection(16, "VG651")
def rounds_to_nothing(run: Run) -> None:
    """bf16 weights at a learning rate of 1e-6"""
    run.rate = 1e-6
    run.prepared.append(_no_zeros)
    run.prepared.append(lambda model: model.to(torch.bfloat16) if run.faulty else None)
    if run.faulty:
        run.alter.append(lambda batch: {k: v.bfloat16() if v.is_floating_point() else v
                                        for k, v in batch.items()})  # fmt: skip


def _no_zeros(model: Any) -> None:
    """Biases as trained ones are: each update of a zero would be seen."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.1)


@injection(30, "VG652")
def untied(run: Run) -> None:
    """A tied head comes back from a checkpoint as a tensor of its own"""
    run.family = "tied"

    def untie(model: Any) -> None:
        if run.faulty:
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())

    run.prepared.append(untie)


@injection(31, world=2, seen="update.schedule")
def scheduler_per_rank(run: Run) -> None:
    """The scheduler steps once a rank: the learning rate falls twice as fast"""
    run.strategy, kept = "ddp", []

    def schedule(optimizer: Any) -> Any:
        kept.append(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: 1 - at / 20))
        return kept[0]

    def steps(model: Any, optimizer: Any) -> None:
        for _ in range(run.world if run.faulty else 1):
            kept[0].step()

    run.scheduler = schedule
    run.after.append(steps)


@injection(33, seen="reach.eval")
def left_in_eval(run: Run) -> None:
    """Somebody called eval() to generate, and nobody train() afterwards"""
    run.family = "dropout"

    def generated(model: Any, optimizer: Any) -> None:
        if run.faulty:
            model.eval()

    run.after.append(generated)
