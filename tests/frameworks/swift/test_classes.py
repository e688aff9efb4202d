"""More model classes and phases through the real `swift` command: guard off, guard on, reference.

A selection belongs to `make test`; all of them are `make frameworks`.
"""

from __future__ import annotations

import pytest

from tests.frameworks.swift import campaign
from tests.frameworks.swift.classes import BY_NAME, REFERENCE, SELECTION, SFT, TRAINED, zero
from tests.kit import runs, swift
from tests.kit.oracle import bitwise, compare

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200),
              pytest.mark.drawn(2, always=("minicpm-dpo-zero2-both", "qwen3_5-zero3"))]
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


@pytest.mark.campaign
def test_a_run_saved_and_resumed_equals_one_that_went_through():
    """LLaVA, ranks that differ, ZeRO-3: saved after the first of two steps."""
    out = runs.session() / "saved"
    saves = ["--output_dir", str(out), "--add_version", "false", "--save_strategy", "steps",
             "--save_steps", "1"]  # fmt: skip
    flags = [*TRAINED, *zero(3), *saves]
    through = swift.run(SFT, "llava", "mixed", flags, guard=True, cold=False)
    assert through.returncode == 0, str(through)
    again = [*flags, "--resume_from_checkpoint", str(out / "checkpoint-1")]
    resumed = swift.run(SFT, "llava", "mixed", again, guard=True, cold=False)
    assert resumed.returncode == 0, str(resumed)
    reference = swift.run(SFT, "llava", "mixed", REFERENCE, guard=False, cold=False)
    for done in (through, resumed):
        verdict = compare(done.ranks, reference.ranks)
        assert verdict, str(verdict)
    assert [len(done.ranks[0].losses) for done in (through, resumed)] == [2, 1]
