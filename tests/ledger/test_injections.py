"""Silent errors are told, and healthy runs are not spoken of: a few of each in real runs.

The sources decide which are drawn. `make ledger` makes them all.
"""

from __future__ import annotations

import random

import pytest

from tests.kit import seeds
from tests.kit.turns import turn
from tools.ledger import campaign, said
from tools.ledger.catalogue import SHOWN_IS_ENOUGH

SEED = seeds.seed("SEED")
DRAWN = 12


def _records(what, make):
    """Of some that are drawn, most of them of one process: those are quick."""
    with campaign.working() as bench:
        known = {n: k for n, k in bench.known()[what].items() if k["world"] < 3}
        for name in _drawn(known):
            with turn():
                yield make(bench, name, known[name])


def _drawn(known):
    chance = random.Random(f"{SEED} ledger")
    alone = [name for name, told in known.items() if told["world"] == 1]
    together = [name for name, told in known.items() if told["world"] > 1 and "zero" not in name]
    return [*chance.sample(alone, DRAWN - 3), *chance.sample(together, 3)]


@pytest.mark.frameworks
def test_drawn_silent_errors_are_told_or_shown():
    print(f"SEED={SEED} draws the same runs again")
    missed = [said.line(told) for told in _records("injection", campaign.inject)
              if told["verdict"] not in _wanted(told) or told["alarms"]]  # fmt: skip
    assert not missed, f"SEED={SEED}: {missed}"


def _wanted(told):
    shown = told["kind"] in SHOWN_IS_ENOUGH or told["name"] in campaign.ONLY_SHOWN
    return ("told", "shown") if shown else ("told",)


@pytest.mark.frameworks
def test_drawn_healthy_runs_get_no_warning_and_no_other_bit():
    print(f"SEED={SEED} draws the same runs again")
    odd = [said.line(told) for told in _records("healthy", campaign.healthy)
           if told["verdict"] not in ("quiet", "not healthy")]  # fmt: skip
    assert not odd, f"SEED={SEED}: {odd}"
