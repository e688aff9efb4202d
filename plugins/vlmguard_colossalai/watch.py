"""A boosted model's two forward hooks, and what is known at each optimizer step.

Hooks on the module, not a wrapped ``forward``: the boosted model stays the framework's own.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

from vlmguard import guard, registry
from vlmguard.core import plan as planning
from vlmguard.core import settings
from vlmguard.core.findings import Finding
from vlmguard.core.runstate import RunState
from vlmguard.runtime import report
from vlmguard.runtime.arming import is_off
from vlmguard.runtime.faults import contain
from vlmguard_colossalai import batches, blanks, dummy, layout
from vlmguard_colossalai.facts import Forward, Step
from vlmguard_colossalai.touched import Touched
from vlmguard_colossalai.translate import Scene
from vlmguard_torch import dry_run
from vlmguard_torch.gradients import Watch
from vlmguard_torch.towers import kind_of, plain

_WATCHED = ("gemini", "lowlevelzero", "ddp", "single")
_by_optimizer: weakref.WeakKeyDictionary[Any, Boosted] = weakref.WeakKeyDictionary()


class Completer:
    """Judges a batch before forward, and completes it where the plan says so."""

    def __init__(self, scene: Scene, state: RunState) -> None:
        assert state.run is not None
        self.state, run = state, state.run
        self.run = run
        self.model, self.family, self.config = scene.model, scene.family, scene.config
        self.processor = scene.options.processor
        self.find_processor = lambda: scene.processor
        self.block: dummy.Block | None = None
        self.placed: dict[Any, dummy.Block] = {}
        self.why_not = self.made = ""
        self.reorders = self.used = False
        self.placeholders = self._placeholders()
        self.lacks = batches.accepts(self.model)
        if run.may_be_unused != "no" and run.strategy in ("gemini", "lowlevelzero"):
            self.make_ready()

    def make_ready(self) -> None:
        """Have the processor build the image now: a reason why it cannot is known before a batch
        needs it."""
        try:
            processor = self.find_processor()
            block = dummy.build(processor) if processor else blanks.build(self.family, self.config)
            self.made = "" if processor else ", made from its config: no processor was found"
            if self.placeholders and not self.placeholders & set(block.ids):
                raise dummy.CannotComplete("its image has none of the model's placeholder tokens")
            if not self.placeholders:
                _note(
                    "no image token is known: a text-only batch gets a blank image in every row, "
                    "which the loss depends on in a model that shows images to the text before them"
                )
            self.block, self.lacks = block, tuple(block.visual)
        except dummy.CannotComplete as error:
            self.why_not = str(error)
            needs = self.family.needs if self.family is not None else {}
            self.lacks = next(((key, *more) for key, more in needs.items()), self.lacks)

    def _on(self, batch: Mapping[str, Any]) -> dummy.Block:
        assert self.block is not None
        device = next((v.device for v in batch.values() if isinstance(v, torch.Tensor)), None)
        if device is None:
            return self.block
        if device not in self.placed:
            self.placed[device] = dummy.placed(self.block, device)
        return self.placed[device]

    def _placeholders(self) -> frozenset[int]:
        if self.family is not None:
            return self.family.placeholder_ids(self.config)
        token = dummy.placeholder(self.processor)
        return frozenset(() if token is None else (token,))

    def facts(self, batch: Mapping[str, Any], completed: bool = False, why_not: str = "") -> Step:
        return batches.facts(
            batch, self.family, self.config, self.placeholders, self.lacks,
            why_not or self.why_not, self.reorders, self.used, completed,
        )  # fmt: skip

    def __call__(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """``batch``, or a completed copy. Raises `Stop` where going on would be wrong."""
        found = registry.get().pre_step(self.run, batch=self.facts(batch))
        used = self.state.settings
        wanted = planning.make(found, used, guard.default_policy, self.run, guard.chosen)
        for finding in wanted.warns:
            if self.state.first(finding):
                report.say(finding, "warned")
        if wanted.stops:
            guard.stop(wanted.stops)
        if not wanted.dummy_image or self.block is None:
            return batch
        try:
            done = dummy.complete(self._on(batch), batch, every_row=not self.placeholders)
        except dummy.CannotComplete as error:
            guard.pre_step(self.run, batch=self.facts(batch, why_not=str(error)))
            return batch
        guard.pre_step(self.run, batch=self.facts(done, completed=True))
        for finding in wanted.fixes:
            if self.state.first(finding):
                parts = ", ".join(self.lacks)
                report.say(finding, "fixed", f"a dummy image ({parts}) is put in{self.made}")
        return done


class Prepared:
    """What is known of a run before its model is wrapped."""

    def __init__(self, scene: Scene, state: RunState) -> None:
        assert state.run is not None
        self.scene, self.state, run = scene, state, state.run
        self.run = run
        self.completer = Completer(scene, state)
        if run.strategy == "gemini" and not scene.paths and scene.options.processor is None:
            _note(
                "no vision tower was recognised and no processor is known: batches are not "
                "completed; parameters that forward leaves out are still watched"
            )
        elif self.completer.why_not and scene.options.processor is None:
            _note(f"text-only batches cannot be completed: {self.completer.why_not}")

    def rehearse(self, loader: Any) -> None:
        """The dry step, if one is asked for."""
        batch = self.scene.options.dry_step
        if batch is None and settings.get().dry_step:
            with dry_run.random_kept(self.scene.model):
                batch = _first(loader)
            if batch is None:
                report.line("dry step: no batch; give guard_booster one, or boost a dataloader")
        if batch is None:
            return
        try:
            if isinstance(batch, Mapping):
                batch = self.completer(batch)
            towers = dry_run.run(self.scene.model, batch, self.scene.paths)
        except dry_run.CannotTry as error:
            report.line(f"dry step: not made: {error}")
            return
        kinds = self.completer.facts(batch).kinds
        untrained = self.scene.family.untrained(self.scene.config) if self.scene.family else ()
        guard.pre_step(self.run, gradients=dry_run.say(towers, kinds, untrained))

    def begin(self, boosted: Any) -> None:
        """Put the hooks on what ``boost`` gave back."""
        if self.run.strategy in _WATCHED:
            state = Boosted(self, boosted[0])
            if boosted[1] is not None:
                _by_optimizer[boosted[1]] = state


def _first(loader: Any) -> Any:
    """One batch as the loader would make it, without drawing from its sampler."""
    data, collate = getattr(loader, "dataset", None), getattr(loader, "collate_fn", None)
    if data is None or collate is None:
        return None
    return collate([data[number] for number in range(loader.batch_size or 1)])


class Boosted:
    """One boosted model while it trains."""

    def __init__(self, prepared: Prepared, model: Any) -> None:
        scene = prepared.scene
        self.state, self.run = prepared.state, prepared.run
        self.completer, self.paths = prepared.completer, scene.paths
        inner = _inner(model, scene.model)
        untrained = scene.family.untrained(scene.config) if scene.family else ()
        self.coverage = Watch(inner, self.paths, untrained)
        self.names = {id(p): plain(name) for name, p in inner.named_parameters() if p.requires_grad}
        self.seeing = {
            number
            for number, name in self.names.items()
            if kind_of(name, self.paths) in ("vision", "aligner")
        }
        gemini = self.run.strategy == "gemini"
        engine = layout.engine(model) if gemini else None
        self.touched = Touched(engine) if gemini else None
        self.apart = gemini and not layout.mixes(engine, inner, self.seeing)
        if gemini and self.run.world > 1 and self.paths and layout.reorders(engine, inner):
            self.completer.reorders = True
            if self.completer.block is None:
                self.completer.make_ready()
        self.accumulates = bool(getattr(engine, "enable_gradient_accumulation", False))
        model.register_forward_pre_hook(_contained(self.before_forward), with_kwargs=True)
        model.register_forward_hook(_contained(self.after_forward), always_call=True)

    def before_forward(
        self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Judge and complete the batch of a training step."""
        if is_off() or not model.training or not torch.is_grad_enabled():
            return None
        return self._before(args, kwargs)

    def _before(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if self.touched is not None:
            if not self.accumulates:
                self.touched.clear()
            seen = bool(self.seeing) and self.seeing <= self.touched.seen
            self.completer.used = self.apart and seen
        named = batches.arguments(self.completer.model, args, kwargs)
        if named is None:
            what = " and ".join(type(value).__name__ for value in args)
            _note(f"a batch of {what} is no mapping: its images cannot be checked")
            self.coverage.before(())
            return None
        batch, rebuild = named
        places = batches.devices(batch)
        if len(places) > 1:
            _note(f"a batch's tensors are on {' and '.join(places)}: it cannot be checked")
            return None
        done = self.completer(batch)
        self.coverage.before(self.completer.facts(done).kinds)
        return None if done is batch else rebuild(done)

    def after_forward(self, model: Any, args: tuple[Any, ...], output: Any) -> None:
        """Before backward, stopping is safe; an exception on its way out is explained."""
        if is_off():
            return
        if output is None and (error := sys.exc_info()[1]) is not None:
            explain(error)
        elif (
            self.touched is not None
            and self.touched.sound
            and model.training
            and torch.is_grad_enabled()
        ):
            self._after()

    def _after(self) -> None:
        assert self.touched is not None
        left: dict[str, tuple[str, ...]] = {}
        for number, name in self.names.items():
            if number not in self.touched.seen:
                kind = kind_of(name, self.paths)
                left[kind] = (*left.get(kind, ()), name)
        if left:
            guard.pre_step(self.run, gradients=Forward(untouched=left))

    def before_step(self) -> None:
        guard.first_step(self.state)
        if self.touched is not None:
            self.touched.clear()
        gradients = self.coverage.after()
        if gradients is not None:
            guard.pre_step(self.run, gradients=gradients)


def _contained(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A fault of ``hook``'s must not reach forward, which it would end."""
    return lambda *args: contain(f"the hook {hook.__name__}", hook, *args)


def _inner(model: Any, before: Any) -> Any:
    """The model that was boosted, ``before``, or what a plug-in made of it."""
    while model is not before and hasattr(model, "module"):
        model = model.module
    return model


def before_step(optimizer: Any) -> None:
    """Judge what this window's backwards reached."""
    state = _by_optimizer.get(optimizer)
    if state is not None:
        state.before_step()


def explain(error: BaseException) -> None:
    """Explain ``error`` once, however many of our wrappers it passes."""
    if getattr(error, "_vlmguard_explained", False):
        return
    error._vlmguard_explained = True  # type: ignore[attr-defined]
    guard.on_error(None, None, error)


def _note(why: str) -> None:
    guard.judge([Finding("VG904", "note", why, scope="rank")])
