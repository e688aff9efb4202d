"""What two ranks say of themselves: every rank counts, and what was asked of their group."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

from vlmguard.ranks import Outcome, Result
from vlmguard.ranks.collective_calls import Call
from vlmguard.rehearse import verdict
from vlmguard.rehearse.framework import Commands
from vlmguard.rehearse.passes import Rehearsal, seen_of
from vlmguard.rehearse.request import Request
from vlmguard.rehearse.training_rows import Sample

DDP = "DistributedDataParallel"


def call(op, phase):
    return Call(op, f"{op} SUM float32[5]", 5, 0, phase, "torch/nn/parallel/distributed.py:1 in f")


REDUCED, GATHERED = call("allreduce", "backward"), call("_allgather_base", "forward")
STEPPED = call("_allgather_base", "step")


def ended(*ranks, asked=2, strategy="ddp"):
    """(steps, wrapped, trainable, calls) a rank."""
    outcomes, calls = [], []
    for number, (steps, wrapped, trainable, log) in enumerate(ranks):
        told = {"steps": steps, "wrapped": wrapped, "trainable": trainable}
        outcomes.append(Outcome(number, "returned", told))
        calls.append(log)
    return seen_of(Result("ok", outcomes, calls), asked, strategy)


def why(seen):
    return verdict.steps_ran(seen) or verdict.engaged(seen)


FINE = (2, DDP, 5, [REDUCED])


def test_all_is_well():
    assert why(ended(FINE, FINE)) == ""


@pytest.mark.parametrize(("other", "told"), [
    ((1, DDP, 5, [REDUCED]), "only 1 of 2 steps ran"),
    ((2, "none", 5, [REDUCED]), "wrapped by none, not by ddp"),
    ((2, DDP, 5, []), "no gradient was ever reduced"),
    ((2, DDP, 6, [REDUCED]), "fewer than the 6 trainable elements"),
    ((2, DDP, 5, [REDUCED, STEPPED]), "parameters were gathered after the step"),
])  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_one_rank_is_enough_to_doubt_all(other, told, first):
    assert told in why(ended(other, FINE) if first else ended(FINE, other))


@pytest.mark.parametrize(("strategy", "wrapped", "log", "told"), [
    ("zero1", "DeepSpeedEngine/zero1", [REDUCED, STEPPED], ""),
    ("zero1", verdict.ZERO0, [REDUCED], ""),  # its config names no stage
    ("zero1", "DeepSpeedEngine/zero1", [REDUCED], "no updated parameter was gathered"),
    ("zero2", verdict.ZERO0, [REDUCED], "no updated parameter was gathered"),
    ("zero3", verdict.ZERO0, [REDUCED], "forward gathered no parameters"),
    ("zero3", "DeepSpeedEngine/zero3", [REDUCED, GATHERED], ""),
    ("zero3", "DeepSpeedEngine/zero2", [REDUCED, GATHERED], "not by zero3"),
    ("fsdp2", DDP, [REDUCED, GATHERED], "scattered no gradients"),
    ("single", "none", [], ""),
])  # fmt: skip
def test_the_wrapper_is_known_from_what_was_asked_of_the_group(strategy, wrapped, log, told):
    found = why(ended(*[(2, wrapped, 5, log)] * 2, strategy=strategy))
    assert told in found if told else not found


@pytest.mark.parametrize(
    ("here", "wanted"),
    [({"vision": ["a"], "llm": ["b"]}, {"vision", "llm"}), ({"llm": ["b"]}, {"vision", "llm"}),
     ({"vision": [], "llm": ["b"]}, {"llm"})],
)  # fmt: skip
def test_of_a_tower_that_is_here_the_framework_says_whether_it_trains(here, wanted):
    """LoRA finds nothing to adapt in some: `check` takes it to train."""
    request = Request("x", "sft", (), "/", "ddp", 2, "/", "m", "/", towers=("vision", "llm"))
    sample = Sample([{}], by_kind={"image": [{}]})
    passes = Rehearsal(request, Commands((), ()), (), sample, None, None)
    assert passes._wanted(here) == wanted
