"""Six faults drawn from all that `make faults` makes: in a real two-rank run one function of ours
raises, returns a wrong type, or sleeps. VLMGUARD_DRAW=N draws those of another run again."""

from __future__ import annotations

import itertools
import os
import random

import pytest

from tests.faults import campaign

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]
NAMES = ("plain", "plain-reentrant")
SEED = int(os.environ.get("VLMGUARD_DRAW") or random.SystemRandom().randrange(10**6))


def test_six_drawn_faults_do_no_harm() -> None:
    bare, warm = campaign.both("trl")
    try:
        bases = campaign.baselines(NAMES, bare, warm)
        assert set(bases) == set(NAMES), "the runs are not what they are without a fault"
        known = {name: campaign.functions(on, warm.wrappers) for name, (_, on) in bases.items()}
        assert all(len(each) > 300 for each in known.values())
        every = (campaign.tried(warm, fault, bases[fault.scenario])
                 for fault in campaign.drawn(known, SEED))  # fmt: skip
        rows = list(itertools.islice((row for row in every if not campaign.closed(row)), 6))
    finally:
        warm.close()
    harm = [row for row in rows if not row["ok"]]
    assert not harm, f"VLMGUARD_DRAW={SEED}: {harm}"
    assert sum(row["reached"] for row in rows) >= 4, f"VLMGUARD_DRAW={SEED}: {rows}"
