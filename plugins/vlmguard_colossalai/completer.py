"""Who runs the tower in a batch without an image: the model, a completed batch, or nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from vlmguard import guard, registry, run_report
from vlmguard.core import plan as planning
from vlmguard.core.facts import Phase
from vlmguard.core.findings import Finding
from vlmguard.core.runstate import RunState
from vlmguard.runtime import report
from vlmguard_colossalai import batches, blanks, dummy, inside, trial
from vlmguard_colossalai.gemini_facts import Step
from vlmguard_colossalai.rules import vg205_text_only_gemini
from vlmguard_colossalai.translate import Scene

CODE = "VG205"


class Completer:
    """Judges a batch before forward, and completes it where the plan says so and the model does not
    run a blank image by itself.

    Attributes:
        why_not: why nobody can run the tower in a batch without an image; "" where somebody can.
        lacks: the entries that such a batch has none of.
        put_in: tokens that the batch under way was made longer by; 0 for one left as it is.
    """

    def __init__(self, scene: Scene, state: RunState) -> None:
        assert state.run is not None
        self.state, run = state, state.run
        self.run, self.scene = run, scene
        self.model, self.family, self.config = scene.model, scene.family, scene.config
        self.block: dummy.Block | None = None
        self.blank: Any = None
        self.placed: dict[Any, dummy.Block] = {}
        self.why_not = self.made = ""
        self.reorders = self.used = self.able = False
        self.put_in = 0
        self.waiting: dict[str, tuple[Finding, str]] = {}  # code → what is fixed if a step works
        self.placeholders = self._placeholders()
        self.lacks = batches.accepts(self.model)
        if not scene.text_runs_towers and (scene.hurts or (scene.differs and scene.paths)):
            self.make_ready()

    def make_ready(self) -> None:
        """Find out now who can run the tower: a reason why nobody can is known before a batch needs
        it. Only while the model is plain."""
        self.able = not self.scene.cannot_blank
        if self.able:
            self.lacks = inside.entries(self.scene.core)
            return
        try:
            self.block, self.made = self._block()
            self.lacks = tuple(self.block.visual)
        except dummy.CannotComplete as error:
            self.why_not = str(error)
            needs = self.family.needs if self.family is not None else {}
            self.lacks = next(((key, *more) for key, more in needs.items()), self.lacks)

    def _block(self) -> tuple[dummy.Block, str]:
        """A dummy image that changes nothing, and how it was made. Raises `CannotComplete`."""
        processor, given = self.scene.processor, self.scene.options.block
        if processor is None:
            block = blanks.build(self.family, self.config)
            made = " by the model's config"
        else:
            block, made = given or dummy.build(processor), ""
        if self.placeholders and not self.placeholders & set(block.ids):
            raise dummy.CannotComplete("its image has none of the model's placeholder tokens")
        if self.family is None:  # known families are declared causal
            every_row = not self.placeholders
            paths = self.scene.paths
            towers = [path for kind in ("vision", "aligner") for path in paths.get(kind, ())]
            if why := trial.why_not(self.model, processor, block, every_row, towers):
                raise dummy.CannotComplete(why)
        return block, made

    def install(self) -> None:
        """Put the blank into the model, which has been wrapped now, if that is how it will go."""
        policy = self.state.settings.policy(CODE, guard.default_policy(CODE))
        if not self.able or policy != "fix":
            return
        gathers = self.run.strategy == "gemini" and self.run.world > 1
        self.blank = inside.install(self.scene.core, gathers, self.state, self.scene.observed)

    @property
    def inside(self) -> bool:
        """Whether the model runs a blank image by itself."""
        return self.blank is not None and not self.blank.fault

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
        token = dummy.placeholder(self.scene.options.processor)
        return frozenset(() if token is None else (token,))

    def facts(self, batch: Mapping[str, Any], why_not: str = "", phase: Phase = "train") -> Step:
        known = self.able or self.family is not None or self.block is not None
        faulty = self.blank is not None and bool(self.blank.fault)
        why_not = why_not or (self.blank.fault if faulty else self.why_not)
        return batches.facts(
            batch, self.family, self.config, self.placeholders, self.lacks,
            why_not, self.reorders, self.used, known, phase,
        )  # fmt: skip

    def __call__(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """``batch``, or a completed copy. Raises `Stop` where going on would be wrong."""
        self.put_in = 0
        found = registry.get().pre_step(self.run, batch=self.facts(batch))
        used = self.state.settings
        wanted = planning.make(found, used, guard.default_policy, self.run, guard.chosen)
        for finding in wanted.warns:
            if self.state.first(finding):
                outcome = "warned" if finding.level == "warning" else ""
                report.say(finding, outcome, state=self.state)
        if wanted.stops:
            guard.stop(wanted.stops, self.state)
        if not wanted.dummy_image:
            return batch
        if self.inside:
            self._wait(wanted.fixes, "the vision tower runs on a blank image inside the model")
            return batch
        return batch if self.block is None else self._completed(batch, wanted.fixes)

    def _completed(self, batch: Mapping[str, Any], fixes: tuple[Finding, ...]) -> Mapping[str, Any]:
        every_row = not self.placeholders
        try:
            done = dummy.complete(self._on(batch), batch, every_row)
        except dummy.CannotComplete as error:
            # Other rules have judged this batch already.
            again = vg205_text_only_gemini.pre_step(self.run, self.facts(batch, str(error)))
            guard.judge([again] if again is not None else [], self.state)
            return batch
        assert self.block is not None
        self.put_in = self.block.length
        longer = f"logits: +{self.put_in} tokens"
        self._wait(fixes, f"a dummy image{self.made} is added ({longer})")
        return done

    def _wait(self, fixes: tuple[Finding, ...], how: str) -> None:
        self.waiting.update({finding.code: (finding, how) for finding in fixes})

    def held(self) -> None:
        """A step was taken: what was changed in it has held."""
        for finding, how in self.waiting.values():
            if self.state.first(finding):
                report.say(finding, "fixed", how, self.state)
        self.waiting.clear()

    def blame(self, error: BaseException) -> None:
        """A completed batch that fails says that it is one."""
        if self.put_in:
            run_report.explain(
                error,
                f"vlmguard: {CODE} had put a dummy image behind this batch's first row "
                f"({self.put_in} more tokens); {CODE}=off leaves batches as they are",
            )
            self.put_in = 0
