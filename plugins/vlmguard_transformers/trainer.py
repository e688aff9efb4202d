"""Read and change what every Hugging Face Trainer has: strategy, DDP options, parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from importlib import metadata
from typing import Any, Literal

from vlmguard.core.facts import Strategy, Tower
from vlmguard.core.findings import Variant
from vlmguard_transformers.change import Journal

_ADAPTER = (".lora_", ".modules_to_save.", ".adapter", ".boft_", ".vera_", ".ia3_", ".hada_")


def releases(*names: str) -> dict[str, str]:
    """Distribution → version, of those that are installed; torch's from the imported module."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if "torch" in sys.modules:
        found["torch"] = str(sys.modules["torch"].__version__)
    return found


def strategy(trainer: Any) -> Strategy:
    """How accelerate will wrap the model, from its state, not from flags."""
    accelerator = trainer.accelerator
    kind = str(accelerator.distributed_type).rsplit(".", 1)[-1]
    if kind == "DEEPSPEED":
        config = accelerator.state.deepspeed_plugin.hf_ds_config
        stage = int(config.get_value("zero_optimization.stage", 0) or 0)
        return ("zero1", "zero1", "zero2", "zero3")[stage]  # type: ignore[return-value]
    if kind == "FSDP":
        plugin = accelerator.state.fsdp_plugin
        return "fsdp2" if getattr(plugin, "fsdp_version", 1) == 2 else "fsdp"
    if kind.startswith("MULTI_"):
        return "ddp"
    return "single" if kind == "NO" else "unknown"


def clipping(trainer: Any) -> Literal["", "written", "missing"]:
    """Whether DeepSpeed's config has ``gradient_clipping``; by now "auto" is filled in."""
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    if plugin is None:
        return ""
    return "written" if "gradient_clipping" in plugin.hf_ds_config.config else "missing"


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


def static_graph(trainer: Any) -> bool:
    """DDP's effective ``static_graph``."""
    handler = getattr(trainer.accelerator, "ddp_handler", None)
    if handler is not None:
        return bool(handler.static_graph)
    return bool(getattr(trainer.args, "ddp_static_graph", False))


def set_wrap(trainer: Any, variant: Variant, journal: Journal) -> None:
    """Set DDP options where they are read: the arguments, and the handler if there is one."""
    handler = getattr(trainer.accelerator, "ddp_handler", None)
    for argument, key, value in (
        ("ddp_find_unused_parameters", "find_unused_parameters", variant.find_unused),
        ("ddp_static_graph", "static_graph", variant.static_graph),
    ):
        if value is None:
            continue
        before = getattr(handler, key, None) if handler else getattr(trainer.args, argument, None)
        journal.set(trainer.args, argument, value, f"{key}: {before} → {value}")
        if handler is not None:
            journal.set(handler, key, value)


def plain(name: str) -> str:
    """A parameter's name in the model as the user knows it, without PEFT's prefixes."""
    for prefix in ("base_model.model.", "base_model."):
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    return name.replace(".base_layer.", ".")


def without_adapters(model: Any) -> Any:
    """The transformers model, without PEFT around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def kind_of(name: str, paths: Mapping[str, Iterable[str]]) -> str:
    """The tower that a plain parameter name belongs to, by its longest path; "other" if none."""
    best, kind = -1, "other"
    for candidate, prefixes in paths.items():
        for prefix in prefixes:
            if (name == prefix or name.startswith(prefix + ".")) and len(prefix) > best:
                best, kind = len(prefix), candidate
    return kind


def towers(
    model: Any,
    paths: Mapping[str, tuple[str, ...]],
    checkpointed: Callable[[str], bool],
    input_grads: Callable[[str], bool | None] = lambda kind: None,
) -> tuple[Tower, ...]:
    """Count parameter tensors per tower."""
    counts: dict[str, list[int]] = {}
    for name, parameter in model.named_parameters():
        count = counts.setdefault(kind_of(plain(name), paths), [0, 0, 0])
        count[0] += 1
        if parameter.requires_grad:
            count[1] += 1
            count[2] += any(mark in name for mark in _ADAPTER)
    return tuple(
        Tower(kind, paths.get(kind, ()), *count, checkpointed(kind), input_grads(kind))
        for kind, count in counts.items()
    )


def shares_blocks(model: Any) -> bool:
    """Whether one trainable weight sits in two numbered blocks (tied layers)."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad and any(part.isdigit() for part in name.split(".")):
            names.setdefault(id(parameter), set()).add(name)
    return any(len(found) > 1 for found in names.values())


def matching(
    model: Any, wish: Iterable[str], paths: Mapping[str, tuple[str, ...]]
) -> dict[str, list[tuple[str, Any]]]:
    """Word of the wish → (name, parameter) pairs it names: a tower, a module path or a glob."""
    found: dict[str, list[tuple[str, Any]]] = {word: [] for word in wish}
    for name, parameter in model.named_parameters():
        bare = plain(name)
        kind = kind_of(bare, paths)
        for word, pairs in found.items():
            if word == kind or bare.startswith(word + ".") or fnmatchcase(bare, word):
                pairs.append((bare, parameter))
    return found
