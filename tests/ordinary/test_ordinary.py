"""Healthy runs: none is stopped, changed, spoken to untruly or left with something.

The sources decide which are drawn. `make ordinary` runs some four hundred, with more frameworks.
"""

from __future__ import annotations

import contextlib

import pytest

from tests.kit import seeds
from tests.kit.turns import turn
from tools.ordinary import campaign, draws

SEED = seeds.seed("SEED")


@pytest.mark.frameworks
@pytest.mark.parametrize(("world", "first", "wanted"), [(1, 0, 12), (1, 1000, 12), (2, 0, 6)])
def test_drawn_healthy_runs_are_as_without_us(world, first, wanted):
    print(f"SEED={SEED} draws the same runs again")
    healthy, unfit, harmed = 0, 0, {}
    with campaign.working() as workers:
        for number in range(first, first + 4 * wanted):
            draw = draws.draw(SEED, world, number)
            if healthy == wanted or draw.env != "trl" or draw.program in draws.COMMANDS:
                continue
            with turn(), contextlib.suppress(campaign.SlowError):
                told = None
                told = campaign.measure(workers, draw)
            if told is None:  # too slow a machine
                continue
            fit = told["verdict"] != "not healthy"
            healthy, unfit = healthy + fit, unfit + (not fit)
            if told.get("harm"):
                harmed[draw.name] = (campaign.sentence(draw), told["harm"])
    assert not harmed, f"SEED={SEED}: {harmed}"
    assert healthy >= wanted / 2, f"{healthy} of {wanted} were run: too slow a machine to say"
    assert unfit <= healthy, "draws that fail by themselves: the harness is at fault"
