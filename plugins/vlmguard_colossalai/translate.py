"""The booster's objects → `Run`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from vlmguard.core import settings
from vlmguard.core.facts import MEDIA, Certainty, Provenance, Run, Strategy
from vlmguard.runtime import report, seams
from vlmguard.runtime.faults import contain
from vlmguard_colossalai import explicit, inside
from vlmguard_torch.layout import freezing, model_checkpointing, parameters
from vlmguard_torch.layout.towers import by_name, kind_of, plain, without_adapters
from vlmguard_torch.media import families
from vlmguard_torch.observe.observed import Observed, under
from vlmguard_torch.releases import releases

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
        self.core = _core(model)
        self.config = getattr(self.core, "config", None)
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

    @cached_property
    def observed(self) -> Observed | None:
        """What rows use of the model, where that matters here; None where it could not be asked."""
        if not self.paths or not (self.strategy == "gemini" or self.differs):
            return None
        return contain("observing a copy of the model", inside.observed, self.core)

    @cached_property
    def cannot_blank(self) -> str:
        """Why the model can run no blank image inside its own forward; "" where it can."""
        failed = "that could not be found out"
        why = contain("looking for a place for a blank image", inside.why_not, self.core,
                      self.observed, default=failed)  # fmt: skip
        return failed if why is None else why

    @property
    def differs(self) -> bool:
        """Whether ranks that run other towers than the rest hang."""
        return self.strategy in ("gemini", "lowlevelzero") and _place()[0] > 1

    @property
    def hurts(self) -> bool:
        """Whether a batch that leaves out a tower that trains goes wrong."""
        return self.sees and (self.strategy == "gemini" or self.differs)

    @property
    def text_runs_towers(self) -> bool:
        """Whether a row of text alone was observed to run every tower, as with a dummy of its
        own."""
        if not self.observed or self.observed.of("text") is None:
            return False
        media = [facts for kind in MEDIA if (facts := self.observed.of(kind)) is not None]
        return bool(media) and not any(facts.towers for facts in media)

    @property
    def text_leaves_towers(self) -> bool:
        """Whether a row of text alone was observed to leave towers out that others run."""
        if not self.observed or self.observed.of("text") is None:
            return False
        return any(facts.towers for k in MEDIA if (facts := self.observed.of(k)) is not None)

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


def say_limits(scene: Scene) -> None:
    """The first line of a run that is hardly judged."""
    if scene.strategy == "unknown" and _place()[1] == 0:
        name = type(scene.plugin).__name__
        report.line(f"{name} is not known to us: only freezing is judged, no batch and no gradient")


def run(scene: Scene, adapter_seams: Sequence[seams.Seam]) -> Run:
    """The run as it is about to be wrapped."""
    model = scene.model
    checkpointing = model_checkpointing.of_model(model)
    towers = parameters.towers(model, scene.paths, lambda kind: checkpointing.on)
    freed = freezing.unfrozen(model, scene.wish, scene.paths)
    world, rank = _place()
    provenance: dict[str, Provenance] = {}
    never = _never_used(scene, provenance)
    idle: Certainty = "possible" if scene.sees and not scene.text_runs_towers else "no"
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
        provenance=provenance,
    )


def _never_used(scene: Scene, provenance: dict[str, Provenance]) -> tuple[str, ...]:
    """Trainable parameters that no kind of batch uses, declared for this family or observed."""
    named = [(n, p) for n, p in scene.model.named_parameters() if p.requires_grad]
    parts = scene.family.untrained(scene.config) if scene.family is not None else ()
    if parts:
        provenance["never_used"] = "declared"
        return tuple(plain(n) for n, _ in named if any(part in n for part in parts))
    observed = scene.observed if scene.strategy == "gemini" else None
    if not observed or not observed.never_used:
        return ()
    provenance["never_used"] = "observed"
    own = {id(p): plain(n) for n, p in scene.core.named_parameters()}
    unused = observed.never_used
    return tuple(plain(n) for n, p in named if under(own.get(id(p), ""), unused))


def _core(model: Any) -> Any:
    """The model that has a config: ``model``, or the one that it was wrapped around."""
    bare = without_adapters(model)
    if hasattr(bare, "config"):
        return bare
    inner = [without_adapters(child) for child in bare.children()]
    known = [child for child in inner if hasattr(child, "config")]
    return known[0] if len(known) == 1 else bare


def _place() -> tuple[int, int]:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 1, 0
    return dist.get_world_size(), dist.get_rank()
