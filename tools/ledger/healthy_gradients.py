"""Healthy: what users do to gradients."""

from __future__ import annotations

from typing import Any

import torch

from tools.ledger.healthy import variant
from tools.ledger.injections_gradients import sgd
from tools.ledger.training import Run
from tools.ordinary import features, models


@variant(world=(1, 2), family=("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "internvl", "gemma3"))
def plain(run: Run, family: str) -> None:
    run.family = family
    run.ddp["find_unused_parameters"] = family == "llava"


@variant(
    family=("text", "tied", "dropout", "softcap", "logit scale", "granite", "biased", "experts")
)
def language(run: Run, family: str) -> None:
    run.family = family


@variant(world=2, family=("tied", "experts", "softcap"))
def language_ranks(run: Run, family: str) -> None:
    run.family = family
    run.ddp["find_unused_parameters"] = family == "experts"


@variant(world=(1, 2), accumulation=(2, 16))
def accumulated(run: Run, accumulation: int) -> None:
    run.accumulation, run.rows = accumulation, 1


@variant(dtype=(torch.float32, torch.bfloat16))
def accumulated_256(run: Run, dtype: Any) -> None:
    run.family, run.accumulation, run.rows, run.steps, run.rate = "text", 256, 1, 2, 1e-2
    run.prepared.append(lambda model: model.to(dtype))


@variant(world=(1, 2), kind=("norm", "tight", "value", "per tensor", "inf norm", "adaptive"))
def clipped(run: Run, kind: str) -> None:
    if kind in ("norm", "tight"):
        run.clipping = 1.0 if kind == "norm" else 1e-4
        return

    def clip(model: Any, optimizer: Any) -> None:
        parameters = [p for p in model.parameters() if p.grad is not None]
        if kind == "value":
            torch.nn.utils.clip_grad_value_(parameters, 1e-3)
        elif kind == "inf norm":
            torch.nn.utils.clip_grad_norm_(parameters, 1e-3, norm_type=float("inf"))
        else:
            for parameter in parameters:
                bound = 1e-2 if kind == "per tensor" else 1e-2 * float(parameter.norm())
                torch.nn.utils.clip_grad_norm_([parameter], max(bound, 1e-4))

    run.before.append(clip)


@variant(world=(1, 2), kind=("scales", "post accumulate", "noise", "zeroes some", "centralized"))
def hooked(run: Run, kind: str) -> None:
    def hook(model: Any) -> None:
        noise = torch.Generator().manual_seed(3)
        for name, parameter in model.named_parameters():
            if kind == "scales" and models.is_tower(name):
                parameter.register_hook(lambda gradient: gradient * 0.1)
            if kind == "zeroes some" and "embed_tokens" in name:
                parameter.register_hook(lambda gradient: gradient * (gradient != gradient[:1]))
            if kind == "post accumulate":
                parameter.register_post_accumulate_grad_hook(_halved)
            if kind == "centralized" and parameter.dim() > 1:
                parameter.register_hook(lambda gradient: gradient - gradient.mean(0, keepdim=True))
        if kind == "noise":

            def noisy(model: Any, optimizer: Any) -> None:
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        drawn = torch.randn(parameter.shape, generator=noise)
                        parameter.grad.add_(drawn, alpha=1e-4)

            run.before.append(noisy)

    run.prepared.append(hook)


def _halved(parameter: Any) -> None:
    parameter.grad.mul_(0.5)


@variant(world=(1, 2))
def in_backward(run: Run) -> None:
    """An optimizer a parameter steps as soon as its gradient is there."""
    from tools.ledger import optimizers

    run.optimizer = lambda run, model: optimizers.InBackward(model, run.rate)
    run.strategy = "single"  # DDP averages its gradients after such a hook
    run.numbers = lambda run, step, micro: list(range(step * run.rows, (step + 1) * run.rows))


@variant(kept=(True, False), accumulation=(1, 2))
def kept_zeros(run: Run, kept: bool, accumulation: int) -> None:
    run.accumulation = accumulation
    run.clear = lambda optimizer: optimizer.zero_grad(set_to_none=not kept)


@variant(world=(1, 2))
def cleared_before(run: Run) -> None:
    """`zero_grad` comes before the backward and not after the step."""
    original = run.backward

    def backward(run: Run, loss: Any) -> None:
        run.live.optimizer.zero_grad()
        (original or (lambda run, loss: loss.backward()))(run, loss)

    run.backward, run.clear = backward, lambda optimizer: None


@variant(world=(1, 2))
def cleared_by_model(run: Run) -> None:
    def clear(optimizer: Any) -> None:
        run.live.model.zero_grad(set_to_none=False)

    run.clear = clear


@variant(world=(1, 2))
def sam(run: Run) -> None:
    """Two backwards: the gradient is taken where the first one leads."""

    def twice(model: Any, optimizer: Any) -> None:
        moved = features._climb(model)
        optimizer.zero_grad()
        from tools.ledger import training

        batch = run.batch(run.at, 0)
        training.by_tokens(run, model, batch, training.targets(run, run.at)).backward()
        features._back(moved)

    run.before.append(twice)


@variant(world=(1, 2), accumulation=(1, 4))
def autocast(run: Run, accumulation: int) -> None:
    run.accumulation = accumulation
    run.autocast = lambda: torch.autocast("cpu", torch.bfloat16)


@variant(world=(1, 2), unscaled=(True, False), overflow=(True, False))
def scaled(run: Run, unscaled: bool, overflow: bool) -> None:
    """fp16 with a GradScaler; of an overflow it skips the step."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)
    run.optimizer = sgd if overflow else None
    run.rate = 0.1 if overflow else 1e-3
    run.autocast = lambda: torch.autocast("cpu", torch.float16)

    def backward(run: Run, loss: Any) -> None:
        scaled = scaler.scale(loss)
        (scaled * float("inf") if overflow and run.at == 1 else scaled).backward()

    def clip(model: Any, optimizer: Any) -> None:
        if unscaled:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    def step(run: Run, optimizer: Any) -> None:
        scaler.step(optimizer)
        scaler.update()

    run.backward, run.step = backward, step
    run.before.append(clip)


@variant(world=(1, 2))
def skipped_batch(run: Run) -> None:
    """A script drops the gradients of a bad batch."""

    def step(run: Run, optimizer: Any) -> None:
        if run.at == 1:
            optimizer.zero_grad()
        else:
            optimizer.step()

    run.step = step


@variant()
def second_step(run: Run) -> None:
    """The same gradient is applied twice."""
    run.after.append(lambda model, optimizer: optimizer.step())
