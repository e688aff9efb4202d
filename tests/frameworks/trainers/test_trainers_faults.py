"""Each function of the new profiles raises in a real run that reaches it: as with the guard off."""

from __future__ import annotations

import pytest

from tests.frameworks.trainers.cases import CHECKPOINTS, LORA, sft
from tests.kit import trainers
from tests.kit.adapters import functions
from tests.kit.oracle import bitwise
from tests.kit.trainers import llamafactory, loop, plain, zero

pytestmark = [pytest.mark.frameworks, pytest.mark.campaign, pytest.mark.timeout(900)]
# What the framework calls: it runs outside containment, and does nothing but hand on.
WRAPPERS = {"initialised", "created", "prepare", "backward", "step", "end"}
HERE = "vlmguard_transformers"
RUNS = {
    "vlmguard_trl": sft("image", *LORA),
    "vlmguard_llamafactory": llamafactory("image"),
    "vlmguard_accelerate": loop("image", "--checkpointing", "default"),
    HERE: plain("image", *CHECKPOINTS),
}
MINE = {
    f"{HERE}.{name}"
    for name in (
        "watch.first_steps:count", "watch.first_steps:judge_forwards",
        "watch.first_steps:Count.__init__", "watch.first_steps:Count._forward",
        "data.peek:kinds", "data.peek:_spread",
    )
}  # fmt: skip
# Reached only where there is advice to spell, and where a blank input is put in.
UNREACHED = {"Accelerate.spell", "Trl.models"}


def targets():
    for package in RUNS:
        found = MINE if package == HERE else functions(package, WRAPPERS)
        reached = (each for each in sorted(found) if each.partition(":")[2] not in UNREACHED)
        yield from ((package, each) for each in reached)


@pytest.mark.parametrize(("package", "target"), list(targets()), ids=lambda each: each)
def test_a_fault_of_ours_is_as_if_the_guard_were_off(package, target):
    off = trainers.run(RUNS[package], guard=False, cold=False)
    fault = {"VLMGUARD_TEST_FAULT": target}
    on = trainers.run(RUNS[package], guard=True, extra=fault, cold=False)
    assert (off.returncode, on.returncode) == (0, 0), on.output[-3000:]
    assert f"made to fail: {target}" in on.output, "it was not reached"
    assert "VG902" in {finding["code"] for finding in on.findings}
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)


def test_a_blank_input_that_cannot_be_put_in_leaves_the_run_as_it_was():
    target = "vlmguard_trl.profile:Trl.models"
    mixed = sft("mixed", *zero(3))
    off = trainers.run(mixed, guard=False, cold=False)
    on = trainers.run(mixed, guard=True, extra={"VLMGUARD_TEST_FAULT": target}, cold=False)
    assert f"made to fail: {target}" in on.output, "it was not reached"
    assert (off.ranks, on.ranks) == ((), ())
    assert on.returncode != 0
    assert not on.fixed()
