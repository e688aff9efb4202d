"""Read and change what every Hugging Face Trainer has: strategy, DDP options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from vlmguard.core.facts import Strategy
from vlmguard.core.findings import Variant
from vlmguard_torch.module_calls import is_compiled

if TYPE_CHECKING:
    from vlmguard_torch.transaction import Transaction


def strategy(trainer: Any) -> Strategy:
    """How accelerate will wrap the model, from its state, not from flags."""
    accelerator = trainer.accelerator
    kind = str(accelerator.distributed_type).rsplit(".", 1)[-1]
    if kind == "DEEPSPEED":
        config = accelerator.state.deepspeed_plugin.hf_ds_config
        stage = int(config.get_value("zero_optimization.stage", 0) or 0)
        return ("zero0", "zero1", "zero2", "zero3")[stage]  # type: ignore[return-value]
    if kind == "FSDP":
        plugin = accelerator.state.fsdp_plugin
        return "fsdp2" if getattr(plugin, "fsdp_version", 1) == 2 else "fsdp"
    if kind.startswith("MULTI_"):
        return "ddp"
    return "single" if kind == "NO" else "unknown"


FRAMEWORKS = ("transformers", "trl", "swift", "llamafactory", "FlagEmbedding")
"""Packages whose trainers are no code of the user's."""


def own_loss(trainer: Any) -> bool:
    """Whether the user's own code calls the model: a Trainer's loss or step, or a loop. It may do
    so more than once before a backward."""
    homes = (home(trainer, name) for name in ("compute_loss", "training_step"))
    return any(each.partition(".")[0] not in FRAMEWORKS for each in homes)


def home(trainer: Any, name: str) -> str:
    """The module of the class that gives the trainer this method; "" where none does, or where the
    trainer holds one of its own."""
    owner = next((kind for kind in type(trainer).__mro__ if name in vars(kind)), None)
    return "" if owner is None or name in vars(trainer) else owner.__module__


def clipping(trainer: Any) -> Literal["", "written", "missing"]:
    """Whether DeepSpeed's config has ``gradient_clipping``; by now "auto" is filled in."""
    config = _deepspeed(trainer)
    if config is None:
        return ""
    return "written" if "gradient_clipping" in config.config else "missing"


def empty_group(trainer: Any) -> Literal["no", "yes"]:
    """Whether one of the two groups that the Trainer makes, with and without weight decay, holds
    no parameter under DeepSpeed. "no" where the config has the optimizer or the schedule made, and
    where the groups may be others: the user's, a framework's (ms-swift drops an empty one itself),
    or an optimizer's own."""
    config = _deepspeed(trainer)
    if config is None or {"optimizer", "scheduler"} & set(config.config):
        return "no"
    makers = {home(trainer, name) for name in ("create_optimizer", "get_decay_parameter_names")}
    if makers != {"transformers.trainer"} or trainer.optimizer is not None:
        return "no"
    if trainer.args.lr_scheduler_type == "reduce_lr_on_plateau":  # it needs an evaluation
        return "no"
    if any(name in str(trainer.args.optim) for name in ("galore", "apollo", "lomo")):
        return "no"
    decayed = set(trainer.get_decay_parameter_names(trainer.model))
    trained = [name for name, p in trainer.model.named_parameters() if p.requires_grad]
    return "yes" if len({name in decayed for name in trained}) == 1 else "no"


def overlap_comm(trainer: Any) -> bool:
    """DeepSpeed's ``zero_optimization.overlap_comm``, False where nothing is said."""
    config = _deepspeed(trainer)
    if config is None:
        return False
    return config.get_value("zero_optimization.overlap_comm", False) is True


def _deepspeed(trainer: Any) -> Any:
    """DeepSpeed's config, as transformers' `HfDeepSpeedConfig` holds it; None without DeepSpeed."""
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    return None if plugin is None else plugin.hf_ds_config


def find_unused(trainer: Any, checkpointing: bool) -> bool:
    """DDP's effective ``find_unused_parameters``.

    transformers ≥ 5 decides in ``Trainer.__init__`` (``accelerator.ddp_handler``); before, in
    ``_wrap_model``: the argument, else True unless it is a PreTrainedModel that checkpoints.
    """
    handler = getattr(trainer.accelerator, "ddp_handler", None)
    if handler is not None:
        return bool(handler.find_unused_parameters)
    if trainer.args.ddp_find_unused_parameters is not None:
        return bool(trainer.args.ddp_find_unused_parameters)
    from transformers import PreTrainedModel

    return not (isinstance(trainer.model, PreTrainedModel) and checkpointing)


def will_compile(trainer: Any) -> bool:
    """Whether accelerate will give the whole model to torch.compile."""
    plugin = getattr(trainer.accelerator.state, "dynamo_plugin", None)
    backend = str(getattr(plugin, "backend", "NO")).rsplit(".", 1)[-1]
    return backend.upper() not in ("NO", "NONE")


def compiles(trainer: Any) -> bool:
    """Whether torch.compile has the model or a part of it, or accelerate will give it to it."""
    if will_compile(trainer) or getattr(getattr(trainer, "args", None), "torch_compile", False):
        return True
    return any(map(is_compiled, trainer.model.modules()))


def static_graph(trainer: Any) -> bool:
    """DDP's effective ``static_graph``."""
    handler = getattr(trainer.accelerator, "ddp_handler", None)
    if handler is not None:
        return bool(handler.static_graph)
    return bool(getattr(trainer.args, "ddp_static_graph", False))


def set_wrap(trainer: Any, variant: Variant, transaction: Transaction) -> None:
    """Set DDP options where they are read: the arguments, and the handler if there is one."""
    handler = getattr(trainer.accelerator, "ddp_handler", None)
    for argument, key, value in (
        ("ddp_find_unused_parameters", "find_unused_parameters", variant.find_unused),
        ("ddp_static_graph", "static_graph", variant.static_graph),
    ):
        if value is None:
            continue
        before = getattr(handler, key, None) if handler else getattr(trainer.args, argument, None)
        transaction.set(trainer.args, argument, value, f"{key}: {before} → {value}")
        if handler is not None:
            transaction.set(handler, key, value)
