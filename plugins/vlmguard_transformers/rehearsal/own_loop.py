"""A training loop of a user's own in a rank: ``optimizer.step()`` steps with plain SGD and is
counted, and the loader that trains gets chosen rows. The loop itself runs as it is.

Its reference has the same number of ranks: see `plain_wrappers`.
"""

from __future__ import annotations

import functools
import gc
import inspect
import json
import types
from collections.abc import Callable, Mapping
from typing import Any

from vlmguard.ranks import phase
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.fixture import NotHere, Scene
from vlmguard_torch.layout import towers
from vlmguard_torch.media.kinds import kinds_of
from vlmguard_transformers.rehearsal import (
    chosen_rows,
    cpu_flags,
    in_rank,
    on_cpu,
    plain_loss,
    plain_wrappers,
)

Ends = Callable[[], None]
LARGEST = 200_000_000
"""Weights of a model that the script makes itself; more do not fit into a rank here."""
BY_SAMPLER, BY_BATCH, ITSELF = "sampler", "batch", "itself"
"""Who deals rows to ranks: a `DistributedSampler`, accelerate by batches, or the script itself."""
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine", "Engine",
             "OptimizedModule", "FullyShardedDataParallel")  # fmt: skip
_LENGTHS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


class Loop:
    """One run of it.

    Attributes:
        spec: as `own_script.Script` has it; of it ``loader``, ``dealt``, ``places``, ``steps``,
            ``shrunk``, ``bucket``, ``world``.
        told: what the rank answers.
        ends: raises what ends the script, behind the last step or the look.
        wrapped: wrapper → its configuration, as the script asked for it.
    """

    def __init__(
        self, scene: Scene, spec: Mapping[str, Any], told: dict[str, Any],
        limit: Callable[[str], None], ends: Ends, looks: bool, reference: bool,
    ) -> None:  # fmt: skip
        self.scene, self.spec, self.told, self.limit, self.ends = scene, spec, told, limit, ends
        self.looks, self.reference = looks, reference
        self.wrapped: dict[str, Mapping[str, Any]] = {}
        self.model: Any = None
        self.main: Any = None
        self.engine: Any = None
        self.backwards = 0
        self.begun = False
        self.loaders: list[Any] = []
        self.last: Any = None
        self.batch: Mapping[str, Any] = {}
        self.given: Any = None
        self.plain: list[Any] = []
        self.measures = False
        told["training"] = False

    def watch(self) -> None:
        """From now on, in this process."""
        import os

        on_cpu.answers(os.environ, int(self.spec["ranks"]), self.limit)
        if self.looks or self.reference or self.scene.single:
            plain_wrappers.install(self._wraps)
        else:
            self._ddp()
            self._fsdp2()
            self._deepspeed()
        self._accelerator()
        self._optimizers()
        self._loaders()
        self._backwards()

    def _wraps(self, kind: str, config: Mapping[str, Any]) -> None:
        self.wrapped[kind] = config

    # What trains.

    def _optimizers(self) -> None:
        import torch

        kind = torch.optim.Optimizer
        own = kind.__init__
        step = kind.profile_hook_step(self._stepped())

        @functools.wraps(own)
        def made(optimizer: Any, *args: Any, **named: Any) -> None:
            own(optimizer, *args, **named)
            optimizer.step = types.MethodType(step, optimizer)
            self._find(each for group in optimizer.param_groups for each in group["params"])

        kind.__init__ = made  # type: ignore[method-assign]

    def _find(self, parameters: Any) -> None:
        """The model that these belong to, heard from now on."""
        model = holder(list(parameters))
        if model is None or model is self.model:
            return
        self.model = model
        in_rank.no_dropout(model)
        count = sum(in_rank._whole(each) for each in model.parameters())
        if count > LARGEST:
            raise NotHere(f"its model is made in its own code and has {count / 1e9:.1f} G weights: "
                          "too many for a rehearsal")  # fmt: skip
        model.register_forward_pre_hook(self._hear, with_kwargs=True)

    def _hear(self, model: Any, args: Any, named: Any) -> None:
        import torch

        if not torch.is_grad_enabled() or model is not self.model or self.measures:
            return
        self.batch = {**{str(at): each for at, each in enumerate(args)}, **named}
        if args and isinstance(args[0], Mapping):
            self.batch = {**args[0], **named}
        self.told["batches"].append(chosen_rows.digest(self.batch))
        self.told["training"] = True
        self.scene.begun(self._rank()).write_text(str(self.told["steps"] + 1))
        if self.reference and not self.told["steps"]:
            self.measures = True
            wanted = plain_loss.gradients(model, self.batch, 0.0)
            self.plain.append(plain_loss.flat(model, wanted))
            self.measures = False
        phase("forward")

    def _rank(self) -> int:
        import torch.distributed as dist

        return dist.get_rank() if dist.is_initialized() else 0

    def _backwards(self) -> None:
        import torch

        own = torch.Tensor.backward

        @functools.wraps(own)
        def back(*args: Any, **named: Any) -> Any:
            self.backwards += 1
            self.given = self.given or self.last
            return own(*args, **named)

        torch.Tensor.backward = back

    def _stepped(self) -> Callable[..., Any]:
        import torch

        def step(optimizer: Any, closure: Any = None) -> Any:
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            counted = self.engine is None
            if counted:
                self._before(optimizer)
            held = [each for group in optimizer.param_groups for each in group["params"]]
            if self.reference:
                plain_wrappers.average(held)
                if not self.told["steps"]:
                    self.told["plain"] = plain_loss.shares(self.model, self.plain)
            with torch.no_grad():
                for each in held:
                    if each.grad is not None:
                        each.add_(each.grad, alpha=-self._rate())
            if counted:
                self._after()
            return loss

        return step

    def _rate(self) -> float:
        named = self.model.named_parameters() if self.model is not None else ()
        return 1.0 if any("lora_" in name for name, _ in named) else 0.1

    def _before(self, optimizer: Any) -> None:
        if not self.backwards:
            raise NotHere("its optimizer steps before any backward")
        if self.main is not None and optimizer is not self.main:
            raise NotHere("several optimizers step in it: this is not rehearsed")
        if self.begun:
            return
        self.begun, self.main = True, optimizer
        model = self.model
        if model is None:
            raise NotHere("the module that its optimizer trains was not found")
        if self.looks:
            self.ends()
        self.told["reached"] = True
        self.told["kept"] = in_rank._keep(model, self.scene.weights(0, self._rank()))
        self.told["towers"] = in_rank._trainable(model, towers.by_name(model))
        self.told["trainable"] = sum(
            in_rank._whole(each) for each in model.parameters() if each.requires_grad
        )
        self.told["wrapped"] = "+".join(self.wrapped) or "none"

    def _after(self) -> None:
        phase("after")
        told = self.told
        told["steps"] += 1
        if told["steps"] in self.scene.steps:
            file = self.scene.weights(told["steps"], self._rank())
            in_rank._keep(self.model, file, told["kept"])
        if told["steps"] >= int(self.spec["steps"]):
            self.ends()

    # What wraps the model, where it is the script's own.

    def _ddp(self) -> None:
        from torch.nn.parallel import DistributedDataParallel as Ddp

        own = Ddp.__init__
        names = list(inspect.signature(own).parameters)

        @functools.wraps(own)
        def made(ddp: Any, *args: Any, **named: Any) -> None:
            named = {**dict(zip(names[1:], args, strict=False)), **named}
            named.pop("device_ids", None)
            named.pop("output_device", None)
            if self.spec["bucket"]:
                named.setdefault("bucket_cap_mb", self.spec["bucket"])
            self._wraps("ddp", {})
            own(ddp, **named)

        Ddp.__init__ = made  # type: ignore[method-assign]

    def _fsdp2(self) -> None:
        from torch.distributed import _composable, fsdp

        own = fsdp.fully_shard

        @functools.wraps(own)
        def sharded(module: Any, *args: Any, **named: Any) -> Any:
            self._wraps("fsdp2", {})
            named.pop("mp_policy", None)
            named.pop("offload_policy", None)
            return own(module, *args, **named)

        for place in (fsdp, _composable.fsdp, getattr(fsdp, "_fully_shard", None)):
            if hasattr(place, "fully_shard"):
                place.fully_shard = sharded

    def _deepspeed(self) -> None:
        try:
            import deepspeed
        except ImportError:
            return
        own = deepspeed.initialize

        @functools.wraps(own)
        def made(*args: Any, **named: Any) -> Any:
            asked = plain_wrappers.initialize_arguments(args, named)
            config = self._config(asked["config"])
            self._wraps("deepspeed", config)
            if asked["optimizer"] is None:
                import torch

                held = asked["model_parameters"] or asked["model"].parameters()
                kept = [each for each in held if isinstance(each, dict) or each.requires_grad]
                asked["optimizer"] = torch.optim.SGD(kept, lr=0.1)
            if asked["args"] is not None and hasattr(asked["args"], "deepspeed_config"):
                asked["args"] = None
            found = own(**{**asked, "config": config})
            self._engine(found[0])
            return found

        deepspeed.initialize = made

    def _config(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The same configuration for a tiny model in float32 and plain SGD."""
        config = cpu_flags.plain(cpu_flags.small(given, self.spec["shrunk"], Argv([])))
        kept = {name: given[name] for name in _LENGTHS if name in given}
        whole = kept.pop("train_batch_size", None)
        micro = kept.setdefault("train_micro_batch_size_per_gpu", 1)
        if "gradient_accumulation_steps" not in kept:
            together = int(micro) * int(self.spec["world"])
            kept["gradient_accumulation_steps"] = max(1, int(whole or together) // together)
        scheduler = given.get("scheduler")
        if scheduler and "auto" not in json.dumps(scheduler):
            kept["scheduler"] = scheduler
        return {**{name: value for name, value in config.items() if name not in _LENGTHS}, **kept}

    def _engine(self, engine: Any) -> None:
        own = engine.step
        self.engine = engine

        @functools.wraps(own)
        def stepped(*args: Any, **named: Any) -> Any:
            last = engine.is_gradient_accumulation_boundary()
            if last:
                self._before(engine.optimizer)
            found = own(*args, **named)
            if last:
                self._after()
            return found

        engine.step = stepped

    def _accelerator(self) -> None:
        import accelerate

        own = accelerate.Accelerator.__init__

        @functools.wraps(own)
        def made(accelerator: Any, *args: Any, **named: Any) -> None:
            for name in ("mixed_precision", "dynamo_backend", "log_with", "dynamo_plugin"):
                named.pop(name, None)
            self._wraps("accelerate", {})
            own(accelerator, *args, **named)

        accelerate.Accelerator.__init__ = made  # type: ignore[method-assign]

    # Its rows.

    def _loaders(self) -> None:
        from torch.utils.data import DataLoader

        own, rows = DataLoader.__init__, DataLoader.__iter__
        signature = inspect.signature(own)

        @functools.wraps(own)
        def made(loader: Any, *args: Any, **named: Any) -> None:
            given = dict(signature.bind(loader, *args, **named).arguments)
            given.pop("self", None)
            given = on_cpu.loader_arguments(given)
            if not type(loader).__module__.startswith("accelerate"):
                number = len(self.loaders)
                self.loaders.append(loader)
                if not self.looks and number == self.spec.get("loader"):
                    given = self._chosen(given)
            own(loader, **given)

        @functools.wraps(rows)
        def begun(loader: Any) -> Any:
            self.last = loader
            return rows(loader)

        DataLoader.__init__ = made  # type: ignore[method-assign]
        DataLoader.__iter__ = begun  # type: ignore[method-assign]

    def _chosen(self, given: dict[str, Any]) -> dict[str, Any]:
        places, rows = self.spec["places"], given["dataset"]
        if not places or max(places) >= _length(rows):
            return given
        given = {**given, "dataset": chosen_rows.chosen(rows, places), "shuffle": None}
        sampler = given.pop("sampler", None)
        if dealer(sampler) == BY_SAMPLER:
            type(sampler).__init__(sampler, given["dataset"], num_replicas=sampler.num_replicas,
                                   rank=sampler.rank, shuffle=False)  # fmt: skip
            given["sampler"] = sampler
        return given

    def facts(self) -> dict[str, Any]:
        """What the look has found out of its rows and its wrapper, as plain data."""
        loader = next((each for each in self.loaders if self.given is not None and
                       each.dataset is self.given.dataset), None)  # fmt: skip
        dealt, size, rows, total = ITSELF, 1, [], 0
        if loader is not None and (size := loader.batch_size or 0):
            dealt = dealer(loader.sampler) or ITSELF
            dealt = BY_BATCH if dealt == ITSELF and self._shared(loader) else dealt
        if dealt != ITSELF:
            rows, total = chosen_rows.kinds(loader.dataset, loader.collate_fn, True)
        else:
            rows = [{"place": 0, "kind": "+".join(kinds_of(self.batch)) or "text"}]
        config = self.wrapped.get("deepspeed")
        limits = ["its own optimizer: plain SGD in float32, one learning rate, no clipping"]
        if dealt == ITSELF:
            limits.append("the script deals its rows itself, so no other order was forced")
        held = {id(each) for group in self.main.param_groups for each in group["params"]}
        outside = [name for name, each in self.model.named_parameters()
                   if each.requires_grad and id(each) not in held]  # fmt: skip
        if outside:
            limits.append(f"its own optimizer does not hold {len(outside)} tensors that train, as "
                          f"{outside[0]}")  # fmt: skip
        return {
            "rows": rows, "count": total, "batch": max(size, 1), "accumulation": self.backwards,
            "loader": self.loaders.index(loader) if dealt != ITSELF else None, "dealt": dealt,
            "deepspeed": dict(config) if config is not None else {},
            "fsdp": any(kind.startswith("fsdp") for kind in self.wrapped),
            "fsdp_config": {"version": 2 if "fsdp2" in self.wrapped else 1},
            "wrapped": list(self.wrapped), "limits": limits,
        }  # fmt: skip

    def _shared(self, loader: Any) -> bool:
        """Whether every rank has the whole data set, and a known sampler deals it."""
        from torch.utils.data import RandomSampler, SequentialSampler

        single = self.scene.single or "accelerate" in self.wrapped
        return single and type(loader.sampler) in (RandomSampler, SequentialSampler)


def dealer(sampler: Any) -> str:
    """`BY_SAMPLER` for torch's own; "" for any other."""
    from torch.utils.data import DistributedSampler

    return BY_SAMPLER if type(sampler) is DistributedSampler else ""


def holder(parameters: list[Any]) -> Any:
    """The outermost module, no wrapper, that holds all of these; None if there is none."""
    from torch import nn

    wanted = {id(each) for each in parameters}
    found = []
    for each in gc.get_objects():
        if issubclass(type(each), nn.Module) and type(each).__name__ not in _WRAPPERS:
            held = {id(one) for one in each.parameters()}
            if wanted and wanted <= held:
                found.append((len(held), each))
    inner = {id(part) for _, each in found for part in each.modules() if part is not each}
    outer = [(count, each) for count, each in found if id(each) not in inner]
    return min(outer, key=lambda one: one[0])[1] if outer else None


def _length(rows: Any) -> int:
    try:
        return len(rows)
    except TypeError:
        return 0
