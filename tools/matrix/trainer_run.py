"""What a rank of a plain `transformers.Trainer` does with a cell, as a user's own script would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import transformers

from tools.matrix import families, models, rows
from tools.matrix.cells import Cell
from tools.matrix.digests import digest
from tools.matrix.reference import reference as reference
from vlmguard.ranks import phase, step_phases

ZERO = Path(__file__).resolve().parents[2] / "tests" / "kit" / "deepspeed"
CHECKPOINTED = ("checkpointed", "reentrant")
"""Tunings that only cells given by name have: all is trained, under gradient checkpointing. The
oracle has none."""


class Script(transformers.Trainer):
    """A user's trainer: generates when it evaluates, and keeps what it saw."""

    generates = False

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.losses: list[float] = []
        self.tokens: list[list[int]] = []

    def _wrap_model(self, *args: Any, **named: Any) -> Any:
        phase("wrap")  # the observation of a copy has set the phase to a step
        return super()._wrap_model(*args, **named)

    def training_step(self, *args: Any, **named: Any) -> Any:
        loss = super().training_step(*args, **named)
        self.losses.append(float(loss))
        return loss

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **named: Any) -> Any:
        if self.generates:
            phase("generation")
            together = getattr(self, "is_deepspeed_enabled", False)
            told = self._prepare_inputs(inputs)
            self.tokens.append(models.tokens(self.model, told, synced_gpus=together))
        phase("evaluation")
        return super().prediction_step(model, inputs, *args, **named)


def prepare() -> None:
    """Once, before any rank is forked."""
    import deepspeed  # noqa: F401


def work(cell: Cell, folder: str, spoil: int | None = None) -> dict[str, Any]:
    """Train. Returns weights by name, losses, digests and what is compared besides."""
    phase("wrap")
    step_phases.told_by()
    # The model comes first: with DeepSpeed's config set, transformers would partition parts of it.
    model = models.make(cell)
    arguments = _arguments(cell, folder)
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if cell.strategy == "fsdp2":
        _layers(arguments, models.rows_of(model))
    between = cell.order == "between"
    trainer = Script(
        model=model,
        args=arguments,
        train_dataset=rows.Rows(rows.flat(cell.order)),
        eval_dataset=rows.evaluated() if between else None,
        data_collator=rows.Collate(families.of(cell.model), models.rows_of(model), spoil),
    )
    trainer.generates = between
    trainer.train()
    phase("weights")
    weights = _weights(trainer.model, cell.strategy)
    evaluated = [e["eval_loss"] for e in trainer.state.log_history if "eval_loss" in e]
    return {
        "weights": weights,
        "trainable": trainable,
        "evaluated": evaluated,
        "tokens": trainer.tokens,
        "digest": digest(weights, [*trainer.losses, *evaluated]),
    }


def _arguments(cell: Cell, folder: str) -> Any:
    more: dict[str, Any] = {}
    if cell.strategy.startswith("zero"):
        config = json.loads((ZERO / f"zero{cell.strategy[-1]}.json").read_text())
        config |= {"zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
        more["deepspeed"] = config
    if cell.strategy == "fsdp2":
        more["fsdp"] = "full_shard auto_wrap"
        more["fsdp_config"] = {
            "fsdp_version": 2,
            "reshard_after_forward": True,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "transformer_layer_cls_to_wrap": "filled in by _layers",
            "cpu_ram_efficient_loading": False,
            "state_dict_type": "SHARDED_STATE_DICT",
            "activation_checkpointing": False,
        }
    if cell.tuning in CHECKPOINTED:
        more["gradient_checkpointing"] = True
        more["gradient_checkpointing_kwargs"] = {"use_reentrant": cell.tuning == "reentrant"}
    if cell.order == "between":
        more |= {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 1}
    return transformers.TrainingArguments(
        output_dir=folder, use_cpu=True, ddp_backend="gloo", optim="sgd",
        learning_rate=models.RATE, lr_scheduler_type="constant", max_grad_norm=0.0,
        per_device_train_batch_size=1, num_train_epochs=1,
        gradient_accumulation_steps=rows.accumulation(cell.order),
        train_sampling_strategy="sequential", remove_unused_columns=False, report_to="none",
        save_strategy="no", logging_steps=1, disable_tqdm=True, seed=1,
        dataloader_pin_memory=False, prediction_loss_only=True, **more,
    )  # fmt: skip


def _layers(arguments: Any, model: Any) -> None:
    """The classes to shard by: those that hold a decoder's or a tower's layers. The lists that
    transformers has name some that are not in the model."""
    names = {type(m).__name__ for m in model.modules()}
    found = sorted(n for n in names if n.endswith(("Layer", "Block")) and "Norm" not in n)
    arguments.fsdp_plugin_args["transformer_cls_names_to_wrap"] = found


def _weights(model: Any, strategy: str) -> dict[str, np.ndarray]:
    found = {}
    if strategy == "fsdp2":
        for module in model.modules():
            if hasattr(module, "reshard"):
                module.reshard()
    for name, parameter in model.named_parameters():
        found[name] = _whole(parameter, strategy)
    return found


def _whole(parameter: Any, strategy: str) -> np.ndarray:
    if strategy == "zero3":
        import deepspeed

        with deepspeed.zero.GatheredParameters([parameter]):
            return parameter.detach().numpy().copy()
    data = parameter.detach()
    data = data.full_tensor() if hasattr(data, "full_tensor") else data
    return data.numpy().copy()
