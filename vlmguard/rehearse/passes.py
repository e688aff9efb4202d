"""The passes of a rehearsal: guard off, the reference, guard on; each in ranks of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vlmguard.check.deep import sandbox
from vlmguard.ranks import Outcome, RankEnvironment, Result, not_engaged, run
from vlmguard.rehearse import compare, fixture, probability, verdict
from vlmguard.rehearse.argv import Argv
from vlmguard.rehearse.compare import Difference
from vlmguard.rehearse.fixture import BACKWARDS, OFF, ON, REFERENCE, NotHere, Scene
from vlmguard.rehearse.framework import Commands
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.training_rows import LOADER, Sample, Window
from vlmguard.rehearse.verdict import CANNOT, CRASH, HANG, ROUNDING, STOPPED, ZERO0, Judgement, Seen

Tell = Callable[[str, Mapping[str, Any]], None]


@dataclass
class Rehearsal:
    """One command's passes.

    Attributes:
        act: one rank of one pass, the plug-in's.
        tell: hears of each pass as it begins and ends.
        fixes: what the guard did in its pass: code → what it said.
        notes: what ranks replaced as they ran.
        backwards: the command with the micro-batches of each step in the reverse order: its
            reference's sums have another order.
        unbalanced: what the ledger warned of in the last pass with the guard off or on.
        booked: whether the ledger read a step of one, and of the ending.
        outcomes: what ranks of all passes said; last: how the last pass of two ranks ended.
        written: rows of a pass's file; dropped: how many of them were not there when it trained.
    """

    request: Request
    commands: Commands
    windows: Sequence[Window]
    sample: Sample
    act: Callable[[Scene], dict[str, Any]]
    tell: Tell
    seconds: dict[str, float] = field(default_factory=dict)
    rss: int = 0
    fixes: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    backwards: Callable[[], Commands] | None = None
    written: int = 0
    dropped: int = 0
    unbalanced: str = ""
    booked: bool = False
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    last: Result | None = None
    _reference: tuple[Scene, Result] | None = None
    _backwards: tuple[Scene, Result] | None = None

    def guard(self, on: bool) -> Judgement:
        """The command with the guard off or on."""
        name = ON if on else OFF
        scene = self._scene(name, self.commands.argv, guard=on)
        self.last = result = self._run(scene, self.request.ranks)
        found = self._judged(scene, result)
        if on:
            self.fixes = fixture.fixes(scene)
        self.booked = self.booked or fixture.booked(scene)
        self.unbalanced = fixture.unbalanced(scene, bool(self.request.data))
        found = verdict.balanced(found, self.unbalanced)
        if found.order and found.order != LOADER and found.kind != CANNOT:
            told = probability.told(self.sample.share, self.request.world, self.request.batch)
            found = replace(found, odds=told)
        self.tell("judged", {"pass": name, "kind": found.kind, "seconds": self.seconds[name]})
        return found

    def _scene(self, name: str, argv: Sequence[str], guard: bool, single: bool = False) -> Scene:
        place = Path(self.request.scratch) / name.replace(" ", "-")
        place.mkdir()
        kept = tuple(window.last for window in self.windows)
        env = {**self.request.env, **self.commands.env}
        if name not in (REFERENCE, BACKWARDS) or self.request.generates:
            env |= self.commands.wrapper
        return Scene(name, self.request.entry, tuple(argv), self.request.folder, place, env,
                     guard, single, kept, books=name == OFF)  # fmt: skip

    def _run(self, scene: Scene, ranks: int, group: str = "") -> Result:
        self.tell("began", {"pass": scene.name})
        begun = time.monotonic()
        single = ranks == 1 and self.request.strategy == "single"
        engine = group or ("none" if single else "referee")
        if engine == "none" and not scene.single:
            scene = replace(scene, single=True)
        result = run(lambda _: self.act(scene), ranks, engine, self.request.limit)
        self.seconds[scene.name] = round(time.monotonic() - begun, 1)
        told = [o.value for o in result.outcomes if isinstance(o.value, dict)]
        self.outcomes += told
        self.rss = max([self.rss, *(one["rss"] for one in told)])
        said = [note for one in told for note in one.get("notes", ())]
        self.notes = list(dict.fromkeys([*self.notes, *said]))
        _write_output(scene, result)
        return result

    def as_rank(
        self, environment: RankEnvironment | None, own: Commands, guard: bool
    ) -> tuple[Result, Judgement | None]:
        """One process as that rank of many, or as the only one; and how it failed, if it did."""
        who = "with its own numbers"
        if environment:
            who = f"as rank {environment.rank} of {environment.size}"
        name = f"{who}, {ON if guard else OFF}"
        scene = self._scene(name, own.argv, guard, single=environment is None)
        scene = replace(scene, steps=(), env={**scene.env, **own.env, **own.wrapper})
        self.tell("began", {"pass": name})
        begun = time.monotonic()
        result = run(lambda _: self.act(scene), 1, "none", self.request.limit, environment)
        spent = self.seconds.get("alone", 0.0) + time.monotonic() - begun
        self.seconds["alone"] = round(spent, 1)
        _write_output(scene, result)
        if result.verdict == "ok":
            return result, None
        if result.verdict == "crash":
            return result, self._crash(scene, result, tried=True)
        return result, Judgement(CANNOT, why="it waited for something that only other ranks can do")

    def to_the_end(
        self, name: str, commands: Commands, last: int, ranks: int, guard: bool
    ) -> tuple[Scene, Judgement | None]:
        """The command with its own ending, in so many ranks; and how it failed, if it did."""
        scene = self._scene(name, commands.argv, guard)
        env = {**scene.env, **commands.env, **commands.wrapper}
        scene = replace(scene, env=env, steps=(last,), ends=True, books=not guard)
        result = self._run(scene, ranks)
        if result.verdict == "ok":
            return scene, None
        if result.verdict == "crash":
            return scene, self._crash(scene, result, tried=True)
        return scene, self._hang(scene, result)

    def _judged(self, scene: Scene, result: Result) -> Judgement:
        if result.verdict != "ok":
            crash = result.verdict == "crash"
            found = self._crash(scene, result) if crash else self._hang(scene, result)
            return self._before(scene, found) or found
        left = min(int(outcome.value.get("rows", -1)) for outcome in result.outcomes)
        if 0 <= left < self.written:
            self.dropped = self.written - left
            return Judgement(CANNOT, why=f"{self.dropped} of {self.written} rows are dropped")
        towers = result.outcomes[0].value["towers"]
        kind = "single" if self.request.loop else self.request.strategy  # its numbers tell
        seen = replace(seen_of(result, self.windows[-1].last, kind), towers=towers,
                       windows=self.windows, wanted=self._wanted(towers))  # fmt: skip
        if verdict.steps_ran(seen) or (verdict.engaged(seen) and not verdict.unused(seen)):
            return verdict.judged(seen)
        compared = self._differences(scene, self.windows)
        if isinstance(compared, str):
            return Judgement(CANNOT, why=compared)
        seen = replace(seen, differences=compared)
        found = verdict.judged(seen)
        if Argv(list(self.request.argv)).get("weight_decay") not in (None, "0", "0.0"):
            found = verdict.decayed(found, seen)
        assert self._reference is not None
        return verdict.scaled(found, self._reference[1].outcomes[0].value.get("plain"))

    def _before(self, scene: Scene, failure: Judgement) -> Judgement | None:
        """What went silently wrong in an order that was over before it failed."""
        over = [window for window in self.windows if window.last < failure.step]
        compared = self._differences(scene, over) if over else ""
        if isinstance(compared, str):
            return None
        return verdict.wrong(Seen((), 0, (), None, over, compared))

    def _wanted(self, towers: Mapping[str, Any]) -> frozenset[str]:
        """Towers that train here, or going by the command and are not here at all, and that the
        rows reach. Of one that is here the framework itself says what trains."""
        every = {kind for kind in (*towers, *self.request.towers) if towers.get(kind, True)}
        every -= {"other", "generator"}
        sees = {"vision", "aligner", "audio"}
        media = any(kind != "text" for kind in self.sample.by_kind)
        return frozenset(kind for kind in every if media or kind not in sees)

    def _crash(self, scene: Scene, result: Result, tried: bool = False) -> Judgement:
        """tried: whether two ranks have trained on the same rows before."""
        cause = result.cause
        assert cause is not None
        frames = [line for line in cause.frames if not line.startswith(("vlmguard", "runpy"))]
        step, _ = _begun(scene, cause.rank)
        message = _short(cause.message or "")
        if cause.error == NotHere.__name__:
            return Judgement(CANNOT, step=step, why=message)
        if told := self._not_its_own(cause, step, tried):
            return Judgement(CANNOT, step=step, why=f"{told}: {cause.error}: {message}")
        kind = STOPPED if scene.guard and cause.error in ("Stop", "SettingsError") else CRASH
        died = f"exit code {cause.exit_code}" if cause.exit_code is not None else ""
        order = self._order(*_begun(scene, cause.rank))
        return Judgement(kind, order, step, "", cause.rank, cause.error or died,
                         message, tuple(_telling(frames)))  # fmt: skip

    def _not_its_own(self, cause: Outcome, step: int, tried: bool) -> str:
        """Why a crash here says nothing of the run elsewhere; "" where it does."""
        text = f"{cause.error}: {cause.message}"
        if cause.exit_code == -9:
            return "a rank was killed: the memory of this machine was probably too small"
        stale = text.startswith("ImportError: cannot import name")  # the package is installed
        lacking = ("ModuleNotFoundError", "ImportError", "PackageNotFoundError")
        if cause.error in lacking and not stale:
            return "a package is not installed here"
        if cause.error == "Unparsed":
            return "the framework refused the command after rehearse had changed it for a CPU"
        if sandbox.lacking(text):
            return "this machine lacks something"
        if not step and "loading state_dict" in text:
            return "the tiny copy of the model could not be loaded"
        if not step and not self.request.data and not stale and not tried:
            return "before the first step, with stand-in rows"
        return ""

    def _hang(self, scene: Scene, result: Result) -> Judgement:
        begun = min((_begun(scene, rank) for rank in range(self.request.ranks)), default=(0, False))
        step = begun[0]
        sites = tuple((s.rank, s.phase, s.call, s.site) for s in result.sites)
        if result.late or not any(site for _, _, _, site in sites):
            return Judgement(CANNOT, why=f"not done after {self.request.limit:.0f} s")
        return Judgement(HANG, self._order(*begun), step, sites=sites)

    def _order(self, step: int, over: bool) -> str:
        """What comes when the last step is over, an evaluation, is of no order of rows."""
        if over and step == self.windows[-1].last:
            return LOADER
        found = [window.order for window in self.windows if window.first <= step <= window.last]
        return found[0] if found else LOADER

    def _differences(self, scene: Scene, windows: Sequence[Window]) -> list[Difference] | str:
        """Against the reference; or why there is none."""
        reference, result, own = self.reference()
        if result.verdict != "ok":
            cause = result.cause
            told = f": {cause.error}: {_short(cause.message or '')}" if cause else ""
            return f"the reference ended with {result.verdict}{told}"
        if result.outcomes[0].value["steps"] < self.windows[-1].last:
            return "the reference did not run every step"
        found = compare.windows(scene, reference, windows, (self.request.ranks, own),
                                self.request.limit)  # fmt: skip
        if isinstance(found, str) or own > 1:
            return found
        worst = max((one.worst for one in found), default=0.0)
        doubtful = ROUNDING < worst <= compare.SURELY * verdict.COARSE
        return self._rounded(found, reference, windows) if doubtful else found

    def reference(self) -> tuple[Scene, Result, int]:
        """The reference, which is run when it is first asked for, and in how many ranks."""
        own = self.request.ranks if self.request.generates or self.request.paired else 1
        if self._reference is None:
            made = self._scene(REFERENCE, self.commands.reference, False, single=own == 1)
            result = self._run(made, own, "referee" if own > 1 else "none")
            self._reference = made, result
            self.tell("judged", {"pass": REFERENCE, "kind": result.verdict,
                                 "seconds": self.seconds[REFERENCE]})  # fmt: skip
        return (*self._reference, own)

    def _rounded(
        self, found: list[Difference], reference: Scene, windows: Sequence[Window]
    ) -> list[Difference]:
        """With what rounding alone makes: one rank twice, its sums in another order."""
        if self.backwards is None:
            return found
        if self._backwards is None:
            scene = self._scene(BACKWARDS, self.backwards().reference, False, single=True)
            self._backwards = scene, self._run(scene, 1, "none")
        again, result = self._backwards
        if result.verdict != "ok":
            return found
        noise = compare.windows(again, reference, windows, (1, 1), self.request.limit)
        if isinstance(noise, str):
            return found
        return [replace(one, rounding=other.worst) for one, other in zip(found, noise, strict=True)]


def seen_of(result: Result, asked: int, strategy: str) -> Seen:
    """What ranks that ended by themselves say of their steps and of what wrapped the model."""
    told = [outcome.value for outcome in result.outcomes]
    wrapped = [str(one["wrapped"]) for one in told]
    trainable = max(int(one["trainable"]) for one in told)
    stage = "zero0" if strategy == "zero1" and set(wrapped) == {ZERO0} else strategy
    apart = None if strategy == "single" else not_engaged(stage, result.calls, trainable)
    return Seen([int(one["steps"]) for one in told], asked, wrapped, apart, (), (),
                strategy=strategy)  # fmt: skip


def _write_output(scene: Scene, result: Result) -> None:
    """What ranks printed, for who keeps the folder."""
    for outcome in result.outcomes:
        (scene.place / f"output.rank{outcome.rank}").write_text(outcome.output, "utf-8")


def _begun(scene: Scene, rank: int) -> tuple[int, bool]:
    """The last step that a rank began, and whether it is over."""
    file = scene.begun(rank)
    step, *over = (file.read_text() if file.exists() else "0").split() or ["0"]
    return int(step), bool(over)


def _short(message: str) -> str:
    return " ".join(message.split())[:600]


_OURS = ("vlmguard_transformers/rehearsal/in_rank.py", "vlmguard_swift/rehearse.py", "in_rank.py",
         "rehearse.py", "passes.py", "contextlib.py")  # fmt: skip


def _telling(frames: Sequence[str]) -> list[str]:
    """The last line of code that is not torch's, and the innermost one."""
    others = [line for line in frames if not line.startswith(_OURS)]
    outer = [line for line in others if not line.startswith(("torch/", "deepspeed/"))]
    return list(dict.fromkeys([*outer[-1:], *others[-1:]]))
