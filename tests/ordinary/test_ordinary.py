"""Healthy runs: none is stopped, changed, spoken to untruly or left with something.

The sources decide which are drawn. `make ordinary` runs some four hundred, with more frameworks.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.kit import seeds
from tests.kit.turns import turn
from tools.ordinary import campaign, draws

SEED = seeds.seed("SEED")
AGAIN, SPENT = 2, 1200.0
"""How often a run is tried that is late with the guard alone, and the seconds of all runs of a test
after which no more are begun: a busy machine is no fault of the guard's."""


@dataclass
class Found:
    """What became of the runs of a test: how many were healthy, failed by themselves, were late
    without the guard; what was done to which; which were late with the guard alone, each time."""

    wanted: int
    healthy: int = 0
    unfit: int = 0
    slow: int = 0
    seconds: float = 0.0
    harmed: dict[str, Any] = field(default_factory=dict)
    hindered: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (f"{self.healthy} of {self.wanted} healthy runs in {self.seconds:.0f} s, "
                f"{self.unfit} failed by themselves, {self.slow} were too slow")  # fmt: skip

    def add(self, draw: draws.Draw, told: dict[str, Any]) -> None:
        fit = told["verdict"] != "not healthy"
        self.healthy, self.unfit = self.healthy + fit, self.unfit + (not fit)
        if told.get("harm"):
            self.harmed[draw.name] = (campaign.sentence(draw), told["harm"])


def measured(workers, draw, found):
    """Run it; again where it is late with the guard alone."""
    for left in reversed(range(AGAIN)):
        with turn():
            begun = time.monotonic()
            try:
                found.add(draw, campaign.measure(workers, draw))
                return
            except campaign.SlowGuardedError:
                if not left:
                    found.hindered.append(draw.name)
            except campaign.SlowError:
                found.slow += 1
                return
            finally:
                found.seconds += time.monotonic() - begun


def judge(found):
    """All that were wanted have run; fewer, and no less than half, on a slow machine alone."""
    assert not found.harmed, f"SEED={SEED}: {found.harmed}"
    assert not found.hindered, f"SEED={SEED}: late with the guard alone, {AGAIN} times"
    assert found.unfit <= found.healthy, f"{found}: the harness is at fault"
    if found.healthy < found.wanted:
        assert found.slow or found.seconds >= SPENT, f"{found}: too few were drawn"
        assert found.healthy >= found.wanted / 2, f"{found}: too slow a machine to say"
        warnings.warn(f"SEED={SEED}: {found}", stacklevel=1)


@pytest.mark.frameworks
@pytest.mark.parametrize(("world", "first", "wanted"), [(1, 0, 12), (1, 1000, 12), (2, 0, 6)])
def test_drawn_healthy_runs_are_as_without_us(world, first, wanted):
    print(f"SEED={SEED} draws the same runs again")
    found = Found(wanted)
    with campaign.working() as workers:
        for number in range(first, first + 4 * wanted):
            draw = draws.draw(SEED, world, number)
            if found.healthy == wanted or found.seconds >= SPENT:
                break
            if draw.env == "trl" and draw.program not in draws.COMMANDS:
                measured(workers, draw, found)
    print(found)
    judge(found)


SLOW = {"healthy": 7, "slow": 3}


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"healthy": 12}, None),
        ({"healthy": 12, "unfit": 2, "slow": 1}, None),
        ({"healthy": 11}, "11 of 12 healthy runs in 0 s, .*too few were drawn"),
        ({"healthy": 11, "seconds": 1300.0}, "warned"),
        (SLOW, "warned"),
        ({**SLOW, "healthy": 5}, "too slow a machine to say"),
        ({**SLOW, "hindered": ["24/1/3"]}, "late with the guard alone"),
        ({"healthy": 12, "harmed": {"24/1/3": ("", ["changed: weights"])}}, "changed: weights"),
        ({"healthy": 2, "unfit": 3, "slow": 9}, "the harness is at fault"),
    ],
)
def test_who_runs_fewer_than_were_wanted_has_to_be_slow(what, words):
    found = Found(12, **what)
    if words is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            judge(found)
    elif words == "warned":
        with pytest.warns(UserWarning, match="of 12 healthy runs"):
            judge(found)
    else:
        with pytest.raises(AssertionError, match=words):
            judge(found)


def test_a_run_that_is_late_with_the_guard_alone_is_tried_again(monkeypatch):
    ends = {"guarded": campaign.SlowGuardedError, "slow": campaign.SlowError}
    draw = draws.draw(24, 1, 0)

    def ran(*ways):
        left = list(ways)

        def measure(workers, draw):
            way = left.pop(0)
            if way in ends:
                raise ends[way]
            return {"verdict": way}

        monkeypatch.setattr(campaign, "measure", measure)
        found = Found(1)
        measured(None, draw, found)
        assert not left
        return found.healthy, found.slow, len(found.hindered)

    assert ran("as without") == (1, 0, 0)
    assert ran("slow") == (0, 1, 0)
    assert ran("guarded", "as without") == (1, 0, 0)
    assert ran("guarded", "guarded") == (0, 0, 1)
