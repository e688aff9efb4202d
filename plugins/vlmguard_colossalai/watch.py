"""A boosted model's two forward hooks, and what is known at each optimizer step.

Hooks on the module, not a wrapped ``forward``: the boosted model stays the framework's own.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

from vlmguard import guard, run_report
from vlmguard.core.findings import Finding
from vlmguard.core.runstate import RunState
from vlmguard.runtime import report
from vlmguard.runtime.faults import contain
from vlmguard.runtime.stub import is_off
from vlmguard_colossalai import batches, gemini_chunks, inside
from vlmguard_colossalai.call_count_sync import CallCountSync
from vlmguard_colossalai.completer import Completer
from vlmguard_colossalai.gemini_facts import Forward
from vlmguard_colossalai.touched import Touched
from vlmguard_colossalai.translate import Scene
from vlmguard_torch.layout.towers import kind_of, plain
from vlmguard_torch.module_calls import Heard
from vlmguard_torch.observe.reached import NOT_KEPT, untouched
from vlmguard_torch.watch import dry_run
from vlmguard_torch.watch.gradients import Watch

_WATCHED = ("gemini", "lowlevelzero", "ddp", "single")
_by_optimizer: weakref.WeakKeyDictionary[Any, Boosted] = weakref.WeakKeyDictionary()


class Prepared:
    """What is known of a run before its model is wrapped."""

    def __init__(self, scene: Scene, state: RunState) -> None:
        assert state.run is not None
        self.scene, self.state, run = scene, state, state.run
        self.run = run
        self.completer = Completer(scene, state)
        if run.strategy == "gemini" and not scene.paths and scene.options.processor is None:
            _note(
                state,
                "no vision tower was recognised and no processor is known: batches are not "
                "completed; parameters that forward leaves out are still watched",
            )
        elif self.completer.why_not and run.may_be_unused != "no":
            _note(state, f"text-only batches cannot be completed: {self.completer.why_not}")

    def rehearse(self, loader: Any) -> None:
        """The dry step, if one is asked for."""
        batch = self.scene.options.dry_step
        if batch is None and not self.state.settings.dry_step:
            return
        try:
            if batch is None:
                batch = _first(self.scene.model, loader)
            if batch is None:
                report.line("dry step: no batch; give guard_booster one, or boost a dataloader")
                return
            if isinstance(batch, Mapping):
                batch = self.completer(batch)
            self.completer.waiting.clear()  # a trial fixes nothing
            towers = dry_run.run(self.scene.model, batch, self.scene.paths)
        except dry_run.CannotTry as error:
            report.line(f"dry step: not made: {error}")
            return
        untrained = self.scene.family.untrained(self.scene.config) if self.scene.family else ()
        guard.pre_step(self.state, gradients=dry_run.say(towers, untrained, self.state))

    def begin(self, boosted: Any) -> None:
        """Put the hooks on what ``boost`` gave back."""
        if self.run.strategy in _WATCHED:
            state = Boosted(self, boosted[0])
            if boosted[1] is not None:
                _by_optimizer[boosted[1]] = state


def _generates() -> bool:
    """Whether this forward is made by the model's ``generate``."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "generate":
        frame = frame.f_back
    return frame is not None


def _first(model: Any, loader: Any) -> Any:
    """One batch as the loader would make it, without drawing from its sampler; None without a
    loader. Raises `CannotTry`."""
    data, collate = getattr(loader, "dataset", None), getattr(loader, "collate_fn", None)
    if data is None or collate is None:
        return None
    with untouched(model, (data, collate)) as can_be:
        if not can_be:
            raise dry_run.CannotTry(NOT_KEPT)
        return collate([data[number] for number in range(loader.batch_size or 1)])


class Boosted:
    """One boosted model while it trains."""

    def __init__(self, prepared: Prepared, model: Any) -> None:
        scene = prepared.scene
        self.state, self.run = prepared.state, prepared.run
        self.completer, self.paths = prepared.completer, scene.paths
        inner = _inner(model, scene.model)
        untrained = scene.family.untrained(scene.config) if scene.family else ()
        self.coverage = Watch(
            inner, self.paths, None, untrained, stays=False, fails=self.run.needs_all_gradients
        )
        self.names = {id(p): plain(name) for name, p in inner.named_parameters() if p.requires_grad}
        self.seeing = {
            number
            for number, name in self.names.items()
            if kind_of(name, self.paths) in ("vision", "aligner")
        }
        gemini = self.run.strategy == "gemini"
        engine = gemini_chunks.engine(model) if gemini else None
        self.touched = Touched(engine) if gemini else None
        self.apart = gemini and not gemini_chunks.mixes(engine, inner, self.seeing)
        if gemini and self.run.world > 1 and self.paths:
            self.completer.reorders = not scene.text_runs_towers
        if scene.hurts or self.completer.reorders:
            contain("putting a blank image into the model", self.completer.install)
        self.heard = Heard()
        self.judged = False  # whether this step's backward was judged
        self.call_counts: CallCountSync | None = None
        if self.completer.reorders:
            self._compares(scene)
        self.pending = False  # whether the booster's backward has run since the last step
        lost = {"backward", "gemini step"} & {*self.run.missing_seams, *self.run.lost_seams}
        self.overwrites = gemini and not lost and gemini_chunks.overwrites(engine)
        self.accumulates = bool(getattr(engine, "enable_gradient_accumulation", False))
        model.register_forward_pre_hook(_contained(self.before_forward), with_kwargs=True)
        model.register_forward_hook(_contained(self.after_forward), always_call=True)

    def _compares(self, scene: Scene) -> None:
        """Nobody evens out all that ranks run: they tell each other, if it is known that they
        part."""
        if self.completer.inside:
            if inside.several(scene.core):
                self.call_counts = CallCountSync(self.state, least=1)
        elif scene.text_leaves_towers:
            self.call_counts = CallCountSync(self.state)
        elif self.completer.block is None:
            _note(
                self.state,
                "what a text-only batch leaves out of this model could not be observed: if it "
                "leaves out its towers, ranks with and without images hang under Gemini "
                f"({self.completer.why_not or scene.cannot_blank})",
            )

    def before_forward(
        self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Judge and complete the batch of a training step."""
        if is_off():
            return None
        trains = model.training and torch.is_grad_enabled()
        if self.touched is not None:
            self.touched.paused = not trains
        if trains and self.pending and self.overwrites:
            guard.pre_step(self.state, gradients=Forward(overwritten=True))
        if trains:
            return self._before(args, kwargs)
        if not model.training:
            self._evaluates(args, kwargs)
        return None

    def _evaluates(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Hear a batch of an evaluation, once however often it goes through the model."""
        named = batches.arguments(self.completer.model, args, kwargs)
        if named is None or named[0].get("past_key_values") is not None or _generates():
            return  # it generates, a token at a time
        if len(batches.devices(named[0])) > 1 or not self.heard.first(named[0]):
            return
        guard.pre_step(self.state, batch=self.completer.facts(named[0], phase="eval"))

    def _before(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if self.touched is not None:
            self.touched.begins(self.accumulates)
            seen = bool(self.seeing) and self.seeing <= self.touched.seen
            self.completer.used = self.apart and seen
        named = batches.arguments(self.completer.model, args, kwargs)
        if named is None:
            what = " and ".join(type(value).__name__ for value in args)
            _note(self.state, f"a batch of {what} is no mapping: its images cannot be checked")
            return None
        batch, rebuild = named
        places = batches.devices(batch)
        if len(places) > 1:
            where = " and ".join(places)
            _note(self.state, f"a batch's tensors are on {where}: it cannot be checked")
            return None
        done = self.completer(batch)
        kinds = self.completer.facts(done).kinds
        if self.call_counts is not None and (found := self.call_counts.compare(kinds)):
            guard.judge([found], self.state)
        return None if done is batch else rebuild(done)

    def after_forward(self, model: Any, args: tuple[Any, ...], output: Any) -> None:
        """An exception on its way out is explained."""
        if is_off():
            return
        if self.touched is not None:
            self.touched.paused = False
        if output is None and (error := sys.exc_info()[1]) is not None:
            self.completer.blame(error)
            explain(error, self.state)

    def before_backward(self) -> None:
        """Stopping is safe here, and all forwards of this backward have run."""
        self.judged = True
        if self.touched is None or not self.touched.sound or not self.touched.seen or is_off():
            return
        left: dict[str, tuple[str, ...]] = {}
        for number, name in self.names.items():
            if number not in self.touched.seen:
                kind = kind_of(name, self.paths)
                left[kind] = (*left.get(kind, ()), name)
        if left:
            guard.pre_step(self.state, gradients=Forward(untouched=left))

    def before_step(self) -> None:
        if not self.judged:  # the user called the optimizer's backward, not the booster's
            self.before_backward()
        self.judged = self.pending = False
        if self.touched is not None:
            self.touched.clear()
        gradients = self.coverage.end()
        if gradients is not None:
            guard.pre_step(self.state, gradients=gradients)


def _contained(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A fault of ``hook``'s must not reach forward, which it would end."""
    return lambda *args: contain(f"the hook {hook.__name__}", hook, *args)


def _inner(model: Any, before: Any) -> Any:
    """The model that was boosted, ``before``, or what a plug-in made of it."""
    while model is not before and hasattr(model, "module"):
        model = model.module
    return model


def before_backward(optimizer: Any) -> None:
    """Judge what forward touched."""
    state = _by_optimizer.get(optimizer) if optimizer is not None else None
    if state is not None:
        state.before_backward()
        state.pending = True


def after_step(optimizer: Any) -> None:
    """What was changed has held."""
    state = _by_optimizer.get(optimizer)
    if state is not None:
        state.pending = False  # also if `before_step` failed
        state.completer.held()
        run_report.first_step(state.state)


def before_step(optimizer: Any) -> None:
    """Judge what this window's backwards reached."""
    state = _by_optimizer.get(optimizer)
    if state is not None:
        state.before_step()


def state_of(optimizer: Any) -> RunState | None:
    """Of the run whose boosted model ``optimizer`` moves."""
    boosted = _by_optimizer.get(optimizer)
    return None if boosted is None else boosted.state


def explain(error: BaseException, state: RunState | None) -> None:
    """Explain ``error`` once, however many of our wrappers it passes."""
    if getattr(error, "_vlmguard_explained", False):
        return
    error._vlmguard_explained = True  # type: ignore[attr-defined]
    guard.on_error(None, None, error, state)


def _note(state: RunState, why: str) -> None:
    guard.judge([Finding("VG904", "note", why, scope="rank")], state)
