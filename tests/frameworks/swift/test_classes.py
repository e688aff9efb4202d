"""More model classes and phases through the real `swift` command: guard off, guard on, reference.

A selection belongs to `make test`; all of them are `make frameworks`.
"""

from __future__ import annotations

import pytest

from tests.frameworks.swift import campaign
from tests.frameworks.swift.classes import BY_NAME, SELECTION
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
EVERY = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in SELECTION else [pytest.mark.campaign])
        for name in BY_NAME
    ],
)


@EVERY
def test_without_the_guard(name):
    run = BY_NAME[name]
    off = campaign.outcome(run, guard=False)
    word, evidence = campaign.judged(run, off)
    assert campaign.met(run, off, False, word), f"{word}: {evidence}\n{off}"


@EVERY
def test_with_the_guard(name):
    run = BY_NAME[name]
    on = campaign.outcome(run, guard=True)
    word, evidence = campaign.judged(run, on)
    assert campaign.met(run, on, True, word), f"{word}: {evidence}\n{on}"
    assert "VG902" not in {finding["code"] for finding in on.findings}
    if run.off == run.on == "right":
        off = campaign.outcome(run, guard=False)
        verdict = bitwise(on.ranks, off.ranks, world=run.world)
        assert verdict, str(verdict)
