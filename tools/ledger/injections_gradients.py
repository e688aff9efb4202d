"""Silent errors between the backward and the optimizer."""

from __future__ import annotations

from typing import Any

import peft
import torch
import transformers

from tools.ledger import training
from tools.ledger.catalogue import injection
from tools.ledger.training import Run
from tools.matrix import families
from tools.ordinary import rows as ordinary


class PastTheWrapper(transformers.Trainer):  # type: ignore[misc]
    """As MiniCPM-V's CPMTrainer: its training step calls `self.model`."""

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        self.model.train()
        inputs = self._prepare_inputs(inputs)
        loss = self.compute_loss(self.model, inputs, num_items_in_batch=num_items_in_batch)
        self.accelerator.backward(loss)
        return loss.detach()


@injection(3, "VG640", "VG660", world=2)
def past_the_wrapper(run: Run) -> None:
    """An own training_step calls the model and not the wrapper: nothing is averaged"""
    run.program, run.strategy, run.rate = "trainer", "ddp", 1e-2
    if run.faulty:
        run.bases.append(PastTheWrapper)


@injection(3, "VG640", "VG660", world=2)
def loop_past_the_wrapper(run: Run) -> None:
    """A loop calls model.module"""
    run.strategy = "ddp"
    if run.faulty:
        run.loss = lambda run, model, *more: training.by_tokens(run, model.module, *more)


@injection(4, "VG660", world=2)
def one_rank_changed(run: Run) -> None:
    """A layer norm of rank 1 drifts"""
    run.strategy, at = "ddp", []

    def drifts(model: Any, optimizer: Any) -> None:
        at.append(1)
        if run.faulty and run.rank == 1 and len(at) == 1:
            norm = next(m for m in model.modules() if "Norm" in type(m).__name__)
            norm.weight.data.mul_(1.01)

    run.after.append(drifts)


def _twice(run: Run) -> None:
    """Rows with an image and a video: the tower is used twice in a forward."""
    kept = {}

    def collate(numbers: Any) -> Any:
        made = kept.setdefault("collate", ordinary.Collate(families.of(run.family), run.live_model))
        return made([(number, "two") for number in numbers])

    run.prepared.append(lambda model: setattr(run, "live_model", model))
    run.collate = collate  # type: ignore[method-assign]


def lora(model: Any, without: str = "lm_head", **more: Any) -> Any:
    """LoRA on all linear layers but those with this in their name."""
    torch.manual_seed(5)
    linear = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)]
    names = [name for name in linear if without not in name and "lm_head" not in name]
    return peft.get_peft_model(
        model, peft.LoraConfig(r=4, init_lora_weights=False, target_modules=names, **more)
    )


def checkpointed(reentrant: bool) -> Any:
    """Switches checkpointing on."""

    def change(model: Any) -> None:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        if hasattr(model, "enable_input_require_grads"):
            model.enable_input_require_grads()

    return change


@injection(5, "VG640", "VG660", world=2)
def adapters_drift(run: Run) -> None:
    """LoRA, DDP, an image and a video in a row, reentrant checkpointing: the tower is used twice"""
    run.program, run.strategy = "trainer", "ddp"
    run.rows = 1
    _twice(run)
    run.prepared += [lambda model: lora(model, "merger"), checkpointed(run.faulty)]


@injection(0, "VG640", world=2)
def reentrant_zero3(run: Run) -> None:
    """Full training, ZeRO-3, image and video in a row: of a tower used twice one part is applied"""
    run.program, run.strategy = "trainer", "zero3"
    run.rows = 1
    _twice(run)
    run.prepared += [checkpointed(run.faulty)]


@injection(7, "VG651", world=2)
def skipped_step(run: Run) -> None:
    """ZeRO-2 with bf16 takes every step for an overflow"""
    run.strategy, run.config = "zero2", {"bf16": {"enabled": True}}
    run.rate = 1e-2
    run.alter.append(low)

    def always(model: Any, optimizer: Any) -> None:
        def check(*_: Any, **__: Any) -> None:
            optimizer.overflow = True

        if run.faulty:
            optimizer.check_overflow = check

    run.wrapped.append(always)


def sgd(run: Run, model: Any) -> Any:
    """Its steps are as large as gradients are."""
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=run.rate)


@injection(8, "VG641", "VG640")
def scale_divided_twice(run: Run) -> None:
    """The loss scale is taken out twice"""
    run.optimizer, run.rate = sgd, 0.1
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    run.backward = lambda run, loss: scaler.scale(loss).backward()

    def unscaled(model: Any, optimizer: Any) -> None:
        scaler.unscale_(optimizer)
        if run.faulty:
            for parameter in model.parameters():
                parameter.grad.div_(128.0)

    def step(run: Run, optimizer: Any) -> None:
        scaler.step(optimizer)
        scaler.update()

    run.before.append(unscaled)
    run.step = step


@injection(8, "VG642")
def not_cleared(run: Run) -> None:
    """zero_grad is skipped"""
    run.optimizer, run.rate = sgd, 0.1
    if run.faulty:
        run.clear = lambda optimizer: None


@injection(9, "VG640", "VG641")
def negated(run: Run) -> None:
    """The clip coefficient is negative"""
    run.optimizer, run.rate = sgd, 0.1
    run.clipping = 0.0 if run.faulty else 1.0

    def negative(model: Any, optimizer: Any) -> None:
        for parameter in model.parameters():
            if run.faulty and parameter.grad is not None:
                parameter.grad.mul_(-0.25)

    run.before.append(negative)


@injection(10, "VG640", "VG642", world=2)
def stale(run: Run) -> None:
    """ZeRO-3, an image step and then a text step: the tower gets its last gradient again"""
    run.program, run.image = "trainer", lambda number: number // 4 % 2 == 0
    run.strategy = "zero3" if run.faulty else "ddp"
    run.ddp = {"find_unused_parameters": True}
    run.options["optim"], run.rate = "sgd", 0.1


@injection(0, "VG640", "VG660", world=2)
def frozen_mid_run(run: Run) -> None:
    """A tower is frozen under DDP in the middle: its bucket waits, and nothing in it is averaged"""
    run.strategy, run.steps, at = "ddp", 2, []
    run.ddp = {"bucket_cap_mb": 100}

    def freezes(model: Any, optimizer: Any) -> None:
        at.append(1)
        if run.faulty and len(at) == 1:
            model.module.model.visual.requires_grad_(False)

    run.after.append(freezes)


@injection(6, "VG640", world=2)
def half_of_a_tower(run: Run) -> None:
    """ZeRO-2, bf16: half of a tower's gradient is lost (by hand: DeepSpeed 0.19.8 is right)"""
    run.strategy, run.config, run.rate = "zero2", {"bf16": {"enabled": True}}, 1e-2
    run.alter.append(low)

    def loses(model: Any, optimizer: Any) -> None:
        whole = optimizer.process_gradients
        tower = set(map(id, model.module.model.visual.parameters()))

        def process(parameter: Any, i: int) -> None:
            if run.faulty and id(parameter) in tower:
                parameter.grad.mul_(0.5)
            whole(parameter, i)

        optimizer.process_gradients = process

    run.wrapped.append(loses)


def low(batch: Any) -> Any:
    """Pixels in bf16."""
    return {k: v.bfloat16() if v.is_floating_point() else v for k, v in batch.items()}
