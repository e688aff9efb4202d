"""What belongs to one guarded run: settings, facts, plan, what was said, counters, what adapters
keep. Made where a trainer, booster or accelerator is about to wrap a model; found again by that
object; closed when its training ends. The watcher, seams and rules are the process's: not here.

Nothing here keeps a state in memory, nor a state its owner: who opened it holds it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from vlmguard.core.facts import Phase, Run, run_as_json, run_from_json
from vlmguard.core.findings import Finding, Spell
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
        no_gradient: towers of which VG302 has told that no gradient reached them.
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
    no_gradient: frozenset[str] = frozenset()
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

    def closes(self, held: Any) -> None:
        """Have ``held.close()`` called when the run ends, unless ``held`` is gone by then."""
        found = weakref.ref(held)

        def close() -> None:
            left = found()
            if left is not None:
                left.close()

        self.at_close(close)

    def closers(self) -> list[Callable[[], None]]:
        """What is to be called at the end; empty the second time."""
        found, self._closers = self._closers[::-1], []
        return found


_open: list[weakref.ref[RunState]] = []
_by_owner: dict[int, tuple[Any, list[weakref.ref[RunState]]]] = {}
_inherited: list[RunState] = []
"""In a spawned dataloader worker: the one made from its parent's facts."""


def bind(owner: Any, state: RunState) -> None:
    """Have ``owner`` (a trainer, a model, an optimizer) lead to ``state``, and to what it led to
    before once that is closed. By identity, since not every owner can be hashed; weakly where the
    owner can be held so, else until `closed`. None leads nowhere."""
    if owner is None:
        return
    key = id(owner)
    held, states = _by_owner.get(key, (None, []))
    if held is None or held() is not owner:
        try:
            held, states = weakref.ref(owner, lambda _: _by_owner.pop(key, None)), []
        except TypeError:
            held, states = lambda: owner, []
    _by_owner[key] = held, [*states, weakref.ref(state)]


def of(owner: Any) -> RunState | None:
    """The open run that ``owner`` leads to."""
    held, states = _by_owner.get(id(owner), (None, []))
    if held is None or held() is not owner:
        return None
    for each in reversed(states):  # wrappers call this in each step
        state = each()
        if state is not None:
            return state
    return None


def of_run(run: Run | None) -> RunState | None:
    """The open run whose facts these are, else the `only` one."""
    found = (state for state in opens() if run is not None and state.run is run)
    return next(found, None) or only()


def of_any(things: Iterable[Any]) -> RunState | None:
    """The first open run that one of these is, has the facts of, or leads to; else the `only`
    one."""
    known = [(each, state) for state in opens() for each in (state, state.run) if each]
    for thing in things:
        found = next((state for each, state in known if each is thing), None) or of(thing)
        if found is not None:
            return found
    return only()


def only() -> RunState | None:
    """The open run of this process, where there is exactly one: for what has no owner."""
    found = opens()
    return found[0] if len(found) == 1 else None


def opens() -> list[RunState]:
    """The open runs of this process, the latest last."""
    return [state for state in (each() for each in list(_open)) if state is not None]


def opened(state: RunState) -> None:
    """Count ``state`` among the open runs, and tell its facts to processes started from now on."""
    _open.append(weakref.ref(state, _collected))
    publish(state)


def publish(state: RunState) -> None:
    """Let dataloader workers know the run: forked ones by memory, spawned ones by environment."""
    if state.run is not None:
        os.environ[INHERITED] = run_as_json(state.run)


def closed(state: RunState) -> None:
    """Forget ``state``; processes started from now on are told of the run around it."""
    state.closed = True
    for each in [each for each in _open if each() is state]:
        _forget(each)


def _collected(gone: weakref.ref[RunState]) -> None:
    """It went with who held it. Python would print what is raised here."""
    with contextlib.suppress(Exception):
        _forget(gone)


def _forget(gone: weakref.ref[RunState]) -> None:
    found = gone()
    for key, (held, states) in _by_owner.copy().items():  # collecting garbage may change it
        left = [each for each in states if each() not in (None, found)]
        if len(left) < len(states):
            _by_owner.pop(key, None)
        if 0 < len(left) < len(states):
            _by_owner[key] = held, left
    if gone in _open:
        _open.remove(gone)
    os.environ.pop(INHERITED, None)
    if around := opens():
        publish(around[-1])


def inherited(owner: Any, settings: Callable[[], Settings]) -> RunState | None:
    """The run of ``owner``, else the `only` one; in a spawned dataloader worker a state made from
    its parent's facts."""
    text = os.environ.get(INHERITED)
    if _open or not text:
        return of(owner) or only()
    _inherited[:] = [RunState(settings(), run=run_from_json(text))]
    opened(_inherited[0])
    return _inherited[0]
