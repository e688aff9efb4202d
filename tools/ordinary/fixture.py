"""A drawn run while it is put together: what a script around a Trainer would hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import transformers

from tools.matrix import families
from tools.ordinary import draws, models, rows
from tools.ordinary.draws import Draw

ZERO = Path(__file__).resolve().parents[2] / "tests" / "kit" / "deepspeed"
RATE = 0.02


@dataclass
class Scene:
    """Attributes:
    bases: classes before `Trainer`, of the user's own.
    options: of TrainingArguments.
    callbacks: of the Trainer.
    model: makes the model.
    collate: makes the collator, given the family of the model and the model.
    drive: trains; given a function that makes a trainer, returns the last one.
    told: more that has to be equal with the guard and without: tokens, losses.
    """

    draw: Draw
    folder: str
    bases: list[type] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    callbacks: list[Any] = field(default_factory=list)
    model: Callable[[], Any] = lambda: None
    named: dict[str, Any] = field(default_factory=dict)
    collate: Callable[..., Any] = rows.Collate
    drive: Callable[[Callable[..., Any]], Any] = lambda make: _trained(make())
    told: dict[str, Any] = field(default_factory=dict)

    def trainer(self, **more: Any) -> Any:
        """A new trainer; ``more`` goes into its arguments."""
        model = self.model()
        kinds = rows.plan(self.draw, self.draw.steps * self.draw.accumulation)
        family = families.of(self.draw.model)
        options = {**_options(self.draw, self.folder, model), **self.options, **more}
        kind = type("Script", (*self.bases, transformers.Trainer), {})
        given = {"model": model} if "model_init" not in self.named else {}
        return kind(
            args=transformers.TrainingArguments(**options),
            train_dataset=rows.Rows(kinds),
            eval_dataset=rows.Rows(held_out(self.draw), 1000),
            data_collator=self.collate(family, model),
            callbacks=list(self.callbacks),
            **given,
            **self.named,
        )


def _trained(trainer: Any) -> Any:
    trainer.train()
    return trainer


def held_out(draw: Draw) -> list[str]:
    """Kinds of the rows that are evaluated on: alike on all ranks."""
    kinds = ("image",) if draw.strategy.startswith("zero") else ("image", "text", "image")
    return [kind for kind in kinds for _ in range(draw.world)]


def unused(draw: Draw) -> bool:
    """Whether DDP has to look for parameters without a gradient."""
    return draws.varied(draw) or draw.program == "student"


def _options(draw: Draw, folder: str, model: Any) -> dict[str, Any]:
    more: dict[str, Any] = {} if draw.world == 1 else {"ddp_backend": "gloo"}
    if draw.strategy == "ddp":
        more["ddp_find_unused_parameters"] = unused(draw)
    if draw.strategy.startswith("zero"):
        more["deepspeed"] = zero(draw.strategy)
    if draw.strategy == "fsdp2":
        more |= {"fsdp": "full_shard auto_wrap", "fsdp_config": fsdp2(model)}
    return {
        "output_dir": folder, "use_cpu": True, "optim": "adamw_torch",
        "learning_rate": RATE / 10, "lr_scheduler_type": "linear", "max_grad_norm": 1.0,
        "per_device_train_batch_size": draw.batch, "per_device_eval_batch_size": 1,
        "max_steps": draw.steps, "gradient_accumulation_steps": draw.accumulation,
        "train_sampling_strategy": "sequential", "remove_unused_columns": False,
        "report_to": "none", "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True,
        "seed": 1, "dataloader_pin_memory": False, "prediction_loss_only": True, **more,
    }  # fmt: skip


def zero(strategy: str) -> dict[str, Any]:
    """DeepSpeed's configuration, with buckets as small as the model."""
    stage = int(strategy[-1])
    config = json.loads((ZERO / f"zero{max(stage, 2)}.json").read_text())
    config["zero_optimization"]["stage"] = stage
    told = {"zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    return {**config, **told, "gradient_clipping": 1.0}


def fsdp2(model: Any) -> dict[str, Any]:
    """By the classes of the model's own layers, of decoder and towers."""
    names = {type(module).__name__ for module in model.modules()}
    layers = sorted(n for n in names if n.endswith(("Layer", "Block")) and "Norm" not in n)
    return {
        "fsdp_version": 2, "reshard_after_forward": True,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "transformer_layer_cls_to_wrap": layers, "cpu_ram_efficient_loading": False,
        "state_dict_type": "SHARDED_STATE_DICT", "activation_checkpointing": False,
    }  # fmt: skip


def make_model(draw: Draw) -> Callable[[], Any]:
    """What a script does before it makes its trainer."""
    return lambda: models.make(draw)
