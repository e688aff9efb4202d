"""Six faults drawn from all that `make faults` makes: in a real two-rank run one function of ours
raises, returns a wrong type, or sleeps. VLMGUARD_DRAW=N draws those of another run again. And one
that once did harm."""

from __future__ import annotations

import pytest

from tests.kit import seeds
from tools.faults import campaign

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
NAMES = ("plain", "plain-reentrant")
HANGS = campaign.Fault("plain-zero3", "vlmguard_torch.blank.hooks:Blank._run", "a word", (1,))
"""The blank input of one rank fails: the other one runs its own, and waits in a gather."""
SEED = seeds.seed("VLMGUARD_DRAW")


@pytest.fixture(scope="module")
def runs():
    """A process with vlmguard, and what each run comes to without a fault."""
    bare, warm = campaign.both("trl")
    try:
        bases = campaign.baselines((*NAMES, HANGS.scenario), bare, warm)
        assert set(bases) == {*NAMES, HANGS.scenario}, "the runs are not what they should be"
        yield warm, bases
    finally:
        warm.close()


def test_six_drawn_faults_do_no_harm(runs) -> None:
    warm, bases = runs
    known = {name: campaign.functions(bases[name][1], warm.wrappers) for name in NAMES}
    assert all(len(each) > 300 for each in known.values())
    every = (campaign.tried(warm, fault, bases[fault.scenario])
             for fault in campaign.drawn(known, SEED))  # fmt: skip
    rows, reached = [], 0
    while reached < 6:
        row = next(row for row in every if not campaign.closed(row))
        rows.append(row)
        reached += row["reached"]
        assert row["ok"], f"VLMGUARD_DRAW={SEED}: {row}"
        assert len(rows) < 12, f"VLMGUARD_DRAW={SEED}: most were never called: {rows}"


def test_a_blank_input_that_fails_on_one_rank_is_a_stop_and_no_hang(runs) -> None:
    warm, bases = runs
    row = campaign.tried(warm, HANGS, bases[HANGS.scenario])
    assert row["reached"]
    assert row["ok"], row
    # Before step 1 where it failed when it was tried on the small copy: the rows come in phases, so
    # the ranks are alike, and ZeRO-3 is what goes wrong in a step of text. Else in the step.
    assert row["outcome"].startswith(("stopped: VG108: ", "stopped: VG106: ")), row
