"""Whether ranks decide alike: what the store gives back is JSON."""

from __future__ import annotations

import pytest

from vlmguard import agree, guard
from vlmguard.core import runstate
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Run
from vlmguard.core.findings import Freeze, Variant, as_data
from vlmguard.core.plan import Plan
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings


def test_what_comes_back_from_the_store_is_the_same():
    mine = [as_data(Variant(use_reentrant=False)), as_data(Freeze(("vision", "aligner")))]
    theirs = [
        {"kind": "Variant", "use_reentrant": False},
        {"kind": "Freeze", "what": ["vision", "aligner"]},
    ]
    assert agree._compare({1: theirs}, mine, "what is to be changed") is None


def test_both_sides_of_a_difference_are_named():
    mine = {"settings": "a", "rules": {"VG101": "fix"}}
    found = agree._compare({1: {"settings": "b", "rules": {"VG101": "fix"}}}, mine, "settings")
    assert found is not None
    assert "{'settings': 'a'} against {'settings': 'b'}" in found.why


MENDED = Plan(remedies=(Variant(use_reentrant=False),))


@pytest.mark.parametrize(
    ("here", "there", "stops"),
    [
        (MENDED, None, False),  # no store
        (MENDED, {}, False),  # nobody was heard: nothing is known, nothing is stopped
        (MENDED, {0: [], 1: [as_data(*MENDED.remedies)]}, False),  # rank 0 is this one
        (MENDED, {1: []}, True),  # a fault of ours there: it mended nothing
        (Plan(), {1: [as_data(*MENDED.remedies)]}, True),
        (Plan(), {1: []}, False),
    ],
)
def test_the_first_step_looks_once_more_and_does_not_wait(monkeypatch, here, there, stops):
    state = RunState(Settings(), run=Run("x", world=2), plan=here)
    runstate.opened(state)
    monkeypatch.setattr(agree.exchange, "look", lambda kind, number: there)
    monkeypatch.setattr(agree.exchange, "gather", lambda *_: pytest.fail("waited"))
    if stops:
        with pytest.raises(Stop, match="VG406: rank 0 and rank 1 have different what is to be ch"):
            guard.look_again(state)
    else:
        guard.look_again(state)


def test_one_rank_asks_nobody(monkeypatch):
    monkeypatch.setattr(agree.exchange, "look", lambda *_: pytest.fail("asked"))
    assert agree.look(RunState(Settings(), run=Run("x", world=1))) is None
    assert agree.look(RunState(Settings())) is None
