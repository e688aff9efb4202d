"""A blank input that fails on some ranks and not on others: the latter run their towers, and wait.

A rank whose blank has failed says so in the rendezvous store and waits for the others to say the
same. If all do, the run goes on as without us on all of them. If one does not, it has run its blank
or an image, and waits in a collective that this rank will never come to: this rank stops, with the
reason, and its launcher ends the others. Nothing is left or looked for where no blank fails.
"""

from __future__ import annotations

from vlmguard import guard
from vlmguard.core.findings import Finding
from vlmguard.core.runstate import RunState
from vlmguard.rules import vg106_idle_tower as rule
from vlmguard.runtime import exchange
from vlmguard.runtime.faults import contain

WAIT = 10.0
"""Seconds for the other ranks to come to the same place in the same forward."""


def judge(state: RunState, number: int, fault: str) -> None:
    """The ``number``-th blank input of this run has failed here: raises `Stop` where ranks differ.

    Without a store nothing can be told: then it goes on, as without us.
    """
    finding = contain("asking the other ranks for their blank input", _parted, state, number, fault)
    if finding is not None:
        guard.judge([finding], state)


def _parted(state: RunState, number: int, fault: str) -> Finding | None:
    run = state.run
    if run is None or run.world < 2:
        return None
    others = exchange.roll_call(f"blank {number} failed", state.number, run.world, WAIT)
    return rule.alone(run, fault, others) if others else None
