"""A training loop of a user's own in a rank: ``optimizer.step()`` steps with plain SGD and is
counted, and the loader that trains gets chosen rows. The loop itself runs as it is.

Its reference has the same number of ranks: see `plain_wrappers`.
"""

from __future__ import annotations

import functools
import gc
import os
import types
from collections.abc import Callable, Mapping
from typing import Any

from vlmguard.ranks import phase
from vlmguard.rehearse.fixture import NotHere, Scene
from vlmguard_torch.layout import towers
from vlmguard_transformers.rehearsal import (
    chosen_rows,
    in_rank,
    loop_rows,
    loop_wrappers,
    on_cpu,
    own_parts,
    plain_loss,
    plain_wrappers,
)

_WRAPPERS = towers.WRAPPERS | {"Engine", "OptimizedModule"}


class Loop:
    """One run of it.

    Attributes:
        spec: as `own_script.Script` has it; ``steps`` is how many are run.
        told: what the rank answers.
        ends: raises what ends the script, behind the last step or the look.
        looks, reference: which pass this is.
        wrapped: wrapper → its configuration, as the script asked for it.
        model: what its optimizer trains, without a wrapper; main: the optimizer that steps;
            engine: DeepSpeed's, which steps in its place.
        batch: what the model got last; forwards: how many of them had gradients.
    """

    def __init__(
        self, scene: Scene, spec: Mapping[str, Any], told: dict[str, Any],
        limit: Callable[[str], None], ends: Callable[[], None], looks: bool, reference: bool,
    ) -> None:  # fmt: skip
        self.scene, self.spec, self.told, self.limit, self.ends = scene, spec, told, limit, ends
        self.looks, self.reference = looks, reference
        self.wrapped: dict[str, Mapping[str, Any]] = {}
        self.model: Any = None
        self.main: Any = None
        self.engine: Any = None
        self.forwards = 0
        self.begun = False
        self.loaders = loop_rows.Loaders(spec, looks)
        self.batch: Mapping[str, Any] = {}
        self.given: Any = None
        self.plain: list[Any] = []
        self.measures = False
        self.added: set[int] = set()
        told["carried"] = False
        told["training"] = False

    def watch(self) -> None:
        """From now on, in this process."""
        on_cpu.answers(os.environ, self.limit)
        if self.looks or self.reference or self.scene.single:
            plain_wrappers.install(self._wraps)
        else:
            loop_wrappers.install(self.spec, self._wraps, self._engine)
        self._accelerator()
        self._optimizers()
        self.loaders.watch()

    def _wraps(self, kind: str, config: Mapping[str, Any]) -> None:
        self.wrapped[kind] = config

    def _optimizers(self) -> None:
        import torch

        kind = torch.optim.Optimizer
        own = kind.__init__
        step = kind.profile_hook_step(self._stepped())

        @functools.wraps(own)
        def made(optimizer: Any, *args: Any, **named: Any) -> None:
            own(optimizer, *args, **named)
            optimizer.step = types.MethodType(step, optimizer)
            held = [each for group in optimizer.param_groups for each in group["params"]]
            self._find(held)
            if self.reference:
                for each in held:
                    if each.requires_grad:
                        each.register_hook(functools.partial(self._carried, each))

        kind.__init__ = made  # type: ignore[method-assign]

    def _find(self, parameters: list[Any]) -> None:
        """The model that these belong to, heard from now on."""
        model = holder(parameters)
        if model is None or model is self.model:
            return
        self.model = model
        in_rank.no_dropout(model)
        own_parts.not_too_large(model)
        model.register_forward_pre_hook(self._hear, with_kwargs=True)

    def _carried(self, parameter: Any, _: Any) -> None:
        """Before a gradient is added: the first one of a step finds none of the step before."""
        told = self.told
        if told["steps"] and not told["carried"] and id(parameter) not in self.added:
            given = parameter.grad
            told["carried"] = given is not None and bool(given.any())
        self.added.add(id(parameter))

    def _hear(self, model: Any, args: Any, named: Any) -> None:
        import torch

        if not torch.is_grad_enabled() or model is not self.model or self.measures:
            return
        self.batch = {**{str(at): each for at, each in enumerate(args)}, **named}
        if args and isinstance(args[0], Mapping):
            self.batch = {**args[0], **named}
        self.told["batches"].append(chosen_rows.digest(self.batch))
        self.told["training"] = True
        self.forwards += 1
        self.given = self.loaders.last
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
            rate = own_parts.rate(self.model) if self.model is not None else 0.1
            with torch.no_grad():
                for each in held:
                    if each.grad is not None:
                        each.add_(each.grad, alpha=-rate)
            if counted:
                self._after()
            return loss

        return step

    def _before(self, optimizer: Any) -> None:
        if not self.forwards:
            raise NotHere("its optimizer steps before any forward of the model that it trains")
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
        in_rank.begin(self.told, self.scene, model, towers.by_name(model), self._rank())
        self.told["wrapped"] = "+".join(self.wrapped) or "none"

    def _after(self) -> None:
        phase("after")
        told = self.told
        told["steps"] += 1
        self.added.clear()
        if told["steps"] in self.scene.steps:
            file = self.scene.weights(told["steps"], self._rank())
            in_rank._keep(self.model, file, told["kept"])
        if told["steps"] >= int(self.spec["steps"]):
            self.ends()

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

    def facts(self) -> dict[str, Any]:
        """What the look has found out of its rows and its wrapper, as plain data."""
        by_batch = self.scene.single or "accelerate" in self.wrapped
        rows = self.loaders.facts(self.given, self.batch, by_batch)
        config = self.wrapped.get("deepspeed")
        limits = ["its own optimizer: plain SGD in float32, one learning rate, no clipping"]
        if rows["loader"] is None:
            limits.append("the script deals its rows itself, so no other order was forced")
        held = (each for group in self.main.param_groups for each in group["params"])
        own_parts.forgotten(self.model, held, limits.append)
        return {
            **rows, "accumulation": self.forwards,
            "deepspeed": dict(config) if config is not None else {},
            "fsdp": any(kind.startswith("fsdp") for kind in self.wrapped),
            "fsdp_config": {"version": 2} if "fsdp2" in self.wrapped else {},
            "wrapped": list(self.wrapped), "limits": limits,
        }  # fmt: skip


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
