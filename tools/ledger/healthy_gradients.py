"""Healthy: what users do to gradients, optimizers, weights and learning rates."""

from __future__ import annotations

from typing import Any

import torch

from tools.ledger.healthy import variant
from tools.ledger.injections_gradients import checkpointed, lora, sgd
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


@variant(kind=("SGD", "momentum", "Adam", "Adafactor", "Lion", "RMSprop", "Adagrad", "NAdam",
               "RAdam", "fused", "foreach", "amsgrad", "decay", "Muon", "low rank"))  # fmt: skip
def optimized(run: Run, kind: str) -> None:
    from tools.ledger import optimizers

    run.optimizer = lambda run, model: optimizers.make(kind, model, run.rate)


@variant(world=(1, 2))
def in_backward(run: Run) -> None:
    """An optimizer a parameter steps as soon as its gradient is there."""
    from tools.ledger import optimizers

    run.optimizer = lambda run, model: optimizers.InBackward(model, run.rate)
    run.strategy = "single"  # DDP's own gradients come later than such a hook
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


@variant(kind=("warm-up", "cosine", "constant", "restarts", "zero in between"))
def scheduled(run: Run, kind: str) -> None:
    run.steps = 6
    rates = {"warm-up": lambda at: at / 4, "cosine": lambda at: max(0.0, 1 - at / 5),
             "constant": lambda at: 1.0, "restarts": lambda at: 1 - at % 3 / 3,
             "zero in between": lambda at: float(at % 2)}  # fmt: skip
    kept: list[Any] = []

    def schedule(optimizer: Any) -> Any:
        kept.append(torch.optim.lr_scheduler.LambdaLR(optimizer, rates[kind]))
        return kept[0]

    run.scheduler = schedule
    run.after.append(lambda model, optimizer: kept[0].step())


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


@variant(world=(1, 2))
def ema(run: Run) -> None:
    """A moving mean of the weights beside the model, which now and then takes its place."""
    kept: dict[str, Any] = {}

    def moves(model: Any, optimizer: Any) -> None:
        with torch.no_grad():
            for name, value in model.state_dict().items():
                kept[name] = kept[name] * 0.9 + value * 0.1 if name in kept else value.clone()

    run.after.append(moves)


@variant()
def ema_swapped(run: Run) -> None:
    """The moving mean is evaluated in the model's place, between two steps."""
    ema(run)

    def swapped(model: Any, optimizer: Any) -> None:
        own = {name: value.clone() for name, value in model.state_dict().items()}
        with torch.no_grad():
            model.load_state_dict({name: value * 0.99 for name, value in own.items()})
            model(**run.batch(50, 0))
            model.load_state_dict(own)

    run.after.append(swapped)


@variant(world=(1,), every=(1, 2))
def lisa(run: Run, every: int) -> None:
    """Another layer trains every few steps, all others are frozen."""
    run.steps = 6

    def chosen(step: int) -> None:
        for name, parameter in run.live.model.named_parameters():
            layer = name.partition("language_model.layers.")[2].partition(".")[0]
            parameter.requires_grad_(layer == str(step // every % 2) or "lm_head" in name)

    def drive(run: Run) -> None:
        from tools.ledger import training

        for step in range(run.steps):
            run.at = step
            chosen(step)
            training.window(run, step)

    run.drive = drive


@variant(what=("tower", "llm", "embeddings", "biases only", "staged"))
def frozen(run: Run, what: str) -> None:
    def freeze(model: Any) -> None:
        for name, parameter in model.named_parameters():
            off = {"tower": models.is_tower(name), "llm": not models.is_tower(name),
                   "embeddings": "embed" in name or "lm_head" in name,
                   "biases only": not name.endswith("bias"),
                   "staged": not models.is_tower(name)}  # fmt: skip
            parameter.requires_grad_(not off[what])

    run.prepared.append(freeze)
    if what == "staged":
        run.optimizer = lambda run, model: torch.optim.AdamW(model.parameters(), lr=run.rate)

        def thaw(model: Any, optimizer: Any) -> None:
            if run.at == 1:
                model.requires_grad_(True)

        run.after.append(thaw)


@variant(world=(1, 2), kind=("lora", "dora", "lora head", "lora dropout", "rslora"))
def adapted(run: Run, kind: str) -> None:
    more: dict[str, Any] = {"dora": {"use_dora": True}, "lora dropout": {"lora_dropout": 0.1},
                            "rslora": {"use_rslora": True},
                            "lora head": {"modules_to_save": ["lm_head"]},
                            }.get(kind, {})  # fmt: skip
    run.prepared.append(lambda model: lora(model, **more))


@variant(reentrant=(True, False), adapters=(True, False))
def checkpointing(run: Run, reentrant: bool, adapters: bool) -> None:
    run.prepared += ([lora] if adapters else []) + [checkpointed(reentrant)]


@variant(world=(1, 2), dtype=(torch.bfloat16,))
def low_weights(run: Run, dtype: Any) -> None:
    run.rate = 1e-2
    run.prepared.append(lambda model: model.to(dtype))
    run.alter.append(lambda batch: {k: v.to(dtype) if v.is_floating_point() else v
                                    for k, v in batch.items()})  # fmt: skip


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


@variant(accumulation=(1, 2))
def two_optimizers(run: Run, accumulation: int) -> None:
    """One for the tower, which rests every other step, and one for the rest."""
    from tools.ledger import optimizers

    run.accumulation = accumulation
    run.optimizer = lambda run, model: optimizers.Both(model, run.rate)


@variant(kind=("adamw_torch", "sgd", "adafactor", "adagrad", "rmsprop"), accumulation=(1, 4))
def trainer(run: Run, kind: str, accumulation: int) -> None:
    run.program, run.accumulation, run.clipping = "trainer", accumulation, 1.0
    run.options |= {
        "optim": kind,
        "lr_scheduler_type": "linear",
        "warmup_steps": 1,
        "bf16": accumulation > 1,
    }


@variant(world=2, noise=(True, False))
def trainer_ranks(run: Run, noise: bool) -> None:
    run.program, run.accumulation, run.clipping = "trainer", 2, 1.0
    run.options |= {"lr_scheduler_type": "cosine", "neftune_noise_alpha": 5.0 if noise else None}


@variant(resumed=(True, False))
def trainer_saves(run: Run, resumed: bool) -> None:
    run.program, run.steps = "trainer", 6
    run.options |= {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "no"}

    def drive(trainer: Any) -> None:
        trainer.train()
        if resumed:
            trainer.args.max_steps = 8
            trainer.train(resume_from_checkpoint=True)

    run.drive = drive
