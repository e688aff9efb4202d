"""Healthy: what users do to weights, optimizers and learning rates."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from tools.ledger.healthy import variant
from tools.ledger.injections_gradients import checkpointed, lora
from tools.ledger.training import Run
from tools.ordinary import models


@variant(kind=("SGD", "momentum", "Adam", "Adafactor", "Lion", "RMSprop", "Adagrad", "NAdam",
               "RAdam", "fused", "foreach", "amsgrad", "decay", "Muon", "low rank"))  # fmt: skip
def optimized(run: Run, kind: str) -> None:
    from tools.ledger import optimizers

    run.optimizer = lambda run, model: optimizers.make(kind, model, run.rate)


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


if importlib.util.find_spec("galore_torch") and importlib.util.find_spec("bitsandbytes"):

    @variant(kind=("galore_adamw", "galore_adafactor", "galore_adamw_layerwise",
                   "adamw_bnb_8bit", "paged_adamw_32bit"))  # fmt: skip
    def packaged(run: Run, kind: str) -> None:
        """Optimizers of galore-torch and bitsandbytes; the layerwise one steps in backward."""
        run.program, run.steps, run.options["optim"] = "trainer", 8, kind
        if kind.startswith("galore"):
            run.options["optim_args"] = "rank=4, update_proj_gap=3"
            run.options["optim_target_modules"] = ["attn", "mlp"]


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
