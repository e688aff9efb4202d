"""The booster's objects → `Run`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from vlmguard.core import settings
from vlmguard.core.facts import Certainty, Checkpointing, Strategy
from vlmguard.runtime import seams
from vlmguard_colossalai import explicit, towers
from vlmguard_colossalai.facts import Boost
from vlmguard_transformers import families, freezing
from vlmguard_transformers import trainer as hf

_PLUGINS: tuple[tuple[str, Strategy], ...] = (
    ("GeminiPlugin", "gemini"),
    ("LowLevelZeroPlugin", "lowlevelzero"),  # the class renames itself after its stage
    ("TorchDDPPlugin", "ddp"),
    ("TorchFSDPPlugin", "fsdp"),
)


def is_plain(model: Any) -> bool:
    """Whether this is a module that no plug-in has wrapped yet."""
    import torch

    names = {base.__name__ for base in type(model).__mro__}
    return isinstance(model, torch.nn.Module) and "ModelWrapper" not in names


class Scene:
    """One booster and the plain model it is about to wrap, with what follows from them."""

    def __init__(self, booster: Any, model: Any) -> None:
        self.model = model
        self.plugin = getattr(booster, "plugin", None)
        self.options = explicit.of(booster)
        self.config = getattr(model, "config", None)
        self.family = families.of(self.config)
        wish = self.options.freeze
        self.wish = settings.get().freeze if wish is None else wish

    @cached_property
    def paths(self) -> dict[str, tuple[str, ...]]:
        return towers.paths(self.model)

    @cached_property
    def processor(self) -> Any:
        """The model's own: as given, else from the folder or cache it was loaded from."""
        if self.options.processor is not None or self.family is None:
            return self.options.processor
        name = getattr(self.config, "_name_or_path", "")
        if not name:
            return None
        from transformers import AutoProcessor

        try:
            return AutoProcessor.from_pretrained(name, local_files_only=True)
        except Exception:
            return None

    @property
    def strategy(self) -> Strategy:
        if self.plugin is None:
            return "single"
        names = [base.__name__ for base in type(self.plugin).__mro__]
        found = (s for start, s in _PLUGINS for name in names if name.startswith(start))
        return next(found, "unknown")

    @property
    def ddp(self) -> dict[str, Any]:
        """TorchDDPPlugin's options, as they will reach DDP."""
        return getattr(self.plugin, "ddp_kwargs", {}) if self.strategy == "ddp" else {}

    @property
    def sees(self) -> bool:
        """Whether a trainable tower runs only for images, as far as can be told."""
        if not self.paths:
            return self.options.processor is not None
        trainable = (n for n, p in self.model.named_parameters() if p.requires_grad)
        kinds = {hf.kind_of(hf.plain(name), self.paths) for name in trainable}
        return bool(kinds & {"vision", "aligner"})


def run(scene: Scene, adapter_seams: Sequence[seams.Seam]) -> Boost:
    """The run as it is about to be wrapped."""
    model = scene.model
    checkpointing = _checkpointing(model)
    towers = hf.towers(model, scene.paths, lambda kind: checkpointing.on)
    freed = freezing.freed(model, scene.wish, scene.paths)
    world, rank = _place()
    idle: Certainty = "possible" if scene.sees else "no"
    return Boost(
        framework="colossalai",
        releases=hf.releases("colossalai", "transformers", "peft"),
        strategy=scene.strategy,
        world=world,
        rank=rank,
        tuning="lora" if any(t.adapters for t in towers) else "full",
        checkpointing=checkpointing,
        towers=towers,
        shared=hf.shares_blocks(model),
        frozen=any(t.trainable < t.total for t in towers),
        may_be_unused=idle,
        find_unused=scene.ddp.get("find_unused_parameters"),
        static_graph=scene.ddp.get("static_graph"),
        freeze=scene.wish,
        unfrozen=len(freed),
        unfrozen_example=freed[0] if freed else "",
        missing_seams=seams.missing(adapter_seams),
        unused=_unused(scene),
    )


def _unused(scene: Scene) -> tuple[str, ...]:
    parts = scene.family.untrained(scene.config) if scene.family is not None else ()
    names = [n for n, p in scene.model.named_parameters() if p.requires_grad]
    return tuple(hf.plain(n) for n in names if any(part in n for part in parts))


def _place() -> tuple[int, int]:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 1, 0
    return dist.get_world_size(), dist.get_rank()


def _checkpointing(model: Any) -> Checkpointing:
    """transformers' modules carry the function they will checkpoint with."""
    calls = [
        getattr(module, "_gradient_checkpointing_func", None)
        for module in model.modules()
        if getattr(module, "gradient_checkpointing", False) is True
    ]
    if not calls:
        return Checkpointing()
    asked = {getattr(call, "keywords", {}).get("use_reentrant") for call in calls}
    variant = asked.pop() if len(asked) == 1 else None
    return Checkpointing(on=True, use_reentrant=variant, asked=variant, decided_by="the model")
