"""The booster's objects → `Run`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from vlmguard.core import settings
from vlmguard.core.facts import Certainty, Run, Strategy
from vlmguard.runtime import seams
from vlmguard_colossalai import explicit
from vlmguard_torch import families, freezing, model_checkpointing, parameters
from vlmguard_torch.releases import releases
from vlmguard_torch.towers import by_name, kind_of, plain

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
        return by_name(self.model)

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
        kinds = {kind_of(plain(name), self.paths) for name in trainable}
        return bool(kinds & {"vision", "aligner"})


def run(scene: Scene, adapter_seams: Sequence[seams.Seam]) -> Run:
    """The run as it is about to be wrapped."""
    model = scene.model
    checkpointing = model_checkpointing.of_model(model)
    towers = parameters.towers(model, scene.paths, lambda kind: checkpointing.on)
    freed = freezing.unfrozen(model, scene.wish, scene.paths)
    world, rank = _place()
    never = _never_used(scene)
    idle: Certainty = "possible" if scene.sees else "no"
    return Run(
        framework="colossalai",
        releases=releases("colossalai", "transformers", "peft"),
        strategy=scene.strategy,
        world=world,
        rank=rank,
        tuning="lora" if any(t.adapters for t in towers) else "full",
        checkpointing=checkpointing,
        towers=towers,
        shared=parameters.shares_blocks(model),
        frozen=any(t.trainable < t.total for t in towers),
        may_be_unused=idle,
        find_unused=scene.ddp.get("find_unused_parameters"),
        static_graph=scene.ddp.get("static_graph"),
        freeze=scene.wish,
        unfrozen=len(freed),
        unfrozen_example=freed[0] if freed else "",
        missing_seams=seams.missing(adapter_seams),
        never_used=never,
        provenance={"never_used": "declared"} if never else {},
    )


def _never_used(scene: Scene) -> tuple[str, ...]:
    """Trainable parameters that this family's forward never uses, whatever the batch."""
    parts = scene.family.untrained(scene.config) if scene.family is not None else ()
    names = [n for n, p in scene.model.named_parameters() if p.requires_grad]
    return tuple(plain(n) for n in names if any(part in n for part in parts))


def _place() -> tuple[int, int]:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 1, 0
    return dist.get_world_size(), dist.get_rank()
