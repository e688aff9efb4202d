"""What belongs to one guarded run: settings, facts, plan, what was said, counters, what adapters
keep. Made where a trainer, booster or accelerator is about to wrap a model; found again by that
object; closed when its training ends. The watcher, seams and rules are the process's: not here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vlmguard.core.advice import Spell
from vlmguard.core.facts import Phase, Run, run_as_json, run_from_json
from vlmguard.core.findings import Finding
from vlmguard.core.plan import Plan
from vlmguard.core.settings import Settings

INHERITED = "VLMGUARD_RUN"
_numbers = itertools.count(1)


@dataclass(eq=False)
class RunState:
    """One guarded run.

    Attributes:
        settings: as resolved for this run.
        spell: how its framework writes a piece of advice.
        number: which guarded run of this process it is, from 1; equal on all ranks.
        run: the run as it will be, once it was read.
        plan: what was done about it.
        phase: what the process is doing with the model at the moment.
        counts: how often each outcome was reported.
        fixed: codes of what would have failed and was seen to hold.
        set: findings whose remedy is in place and has yet to show that it holds.
        neutral: findings whose remedy is in place though they might never have come true.
        said: (code, sentence) → how often.
        speaks: whether it is greeted where there is nothing to say.
        stepped: whether its first step was summed up.
        kept: what adapters keep for as long as the run lasts.
    """

    settings: Settings
    spell: Spell | None = None
    number: int = field(default_factory=lambda: next(_numbers))
    run: Run | None = None
    plan: Plan = field(default_factory=Plan)
    phase: Phase = "train"
    counts: Counter[str] = field(default_factory=Counter)
    fixed: list[str] = field(default_factory=list)
    set: dict[str, Finding] = field(default_factory=dict)
    neutral: dict[str, Finding] = field(default_factory=dict)
    said: Counter[tuple[str, str]] = field(default_factory=Counter)
    speaks: bool = True
    stepped: bool = False
    closed: bool = False
    kept: dict[str, Any] = field(default_factory=dict)
    _closers: list[Callable[[], None]] = field(default_factory=list)

    def first(self, finding: Finding) -> bool:
        """Whether to print it: the same code and sentence once a run."""
        key = (finding.code, finding.why)
        self.said[key] += 1
        return self.said[key] == 1

    def at_close(self, call: Callable[[], None]) -> None:
        """Have ``call`` made when the run ends, the last one first."""
        self._closers.append(call)

    def closers(self) -> list[Callable[[], None]]:
        """What is to be called at the end; empty the second time."""
        found, self._closers = self._closers[::-1], []
        return found


_open: list[RunState] = []
_by_owner: dict[int, RunState] = {}


def bind(owner: Any, state: RunState) -> None:
    """Have ``owner`` (a trainer, a booster's model, an optimizer) lead to ``state``. Held weakly
    where the owner can be: by identity, since not every owner can be hashed."""
    key = id(owner)
    _by_owner[key] = state
    with contextlib.suppress(TypeError):  # `closed` lets go of what cannot be held weakly
        weakref.finalize(owner, _by_owner.pop, key, None).atexit = False


def of(owner: Any) -> RunState | None:
    """The open run that ``owner`` leads to."""
    return _by_owner.get(id(owner))


def opened(state: RunState) -> None:
    """Make ``state`` the current one, here and (its facts) in processes started from now on."""
    _open.append(state)
    publish(state)


def publish(state: RunState) -> None:
    """Let dataloader workers know the run: forked ones by memory, spawned ones by environment."""
    if state.run is not None:
        os.environ[INHERITED] = run_as_json(state.run)


def closed(state: RunState) -> None:
    """Forget ``state``; the run around it, if there is one, is current again."""
    state.closed = True
    for key in [key for key, found in _by_owner.items() if found is state]:
        del _by_owner[key]
    if state in _open:
        _open.remove(state)
    os.environ.pop(INHERITED, None)
    if _open:
        publish(_open[-1])


def current() -> RunState | None:
    """The innermost open run of this process; None before and after."""
    return _open[-1] if _open else None


def inherited(settings: Callable[[], Settings]) -> RunState | None:
    """`current`, or in a spawned dataloader worker a state made from its parent's facts."""
    if _open:
        return _open[-1]
    text = os.environ.get(INHERITED)
    if not text:
        return None
    state = RunState(settings(), run=run_from_json(text))
    _open.append(state)
    return state
