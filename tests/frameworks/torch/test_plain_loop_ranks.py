"""Loops in plain torch, nobody's Trainer: judged where DDP, DeepSpeed or FSDP2 takes the model, or
by hand."""

from __future__ import annotations

import pytest

from tests.kit import oracle, trainers

ALWAYS = ("zero3", "fsdp2", "test_a_step_of_text_alone_moves_no_tower_under_fsdp2")
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900),
              pytest.mark.drawn(2, always=ALWAYS)]
WRAPPERS = {
    "ddp": (),
    "zero2": ("--wrap", "deepspeed", "--config", "{data}/loop_zero2.json"),
    "zero3": ("--wrap", "deepspeed", "--config", "{data}/loop_zero3.json"),
    "fsdp2": ("--wrap", "fsdp2"),
}
BY_HAND = ("--wrap", "none", "--hand")


def loop(data, *flags):
    script = [*trainers._torchrun(), str(trainers.PROGRAMS / "plain.py"), "--model", "{model}"]
    return trainers.Command([*script, "--data", data, *flags], "qwen2_vl")


def run(data, *flags, guard=True, ranks=2):
    return trainers.run(loop(data, *flags), guard=guard, ranks=ranks, cold=False)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_rows_that_differ_between_ranks_fail_without_and_are_right_with_it(wrapper):
    without = run("mixed", *WRAPPERS[wrapper], guard=False)
    assert without.returncode != 0, without
    said = "Expected to have finished reduction" if wrapper == "ddp" else "gloo"
    assert without.hung or said in without.output, without
    with_it = run("mixed", *WRAPPERS[wrapper])
    assert with_it.returncode == 0, with_it
    assert with_it.fixed() | {f["code"] for f in with_it.findings} >= {"VG106"}
    reference = run("mixed", "--reference", guard=False)
    verdict = oracle.compare(with_it.ranks, reference.ranks[:1], alone=True)
    assert verdict, verdict


@pytest.mark.parametrize(
    ("wrapper", "flags"),
    [("ddp", ()), ("ddp", ("--find_unused",)),
     *((wrapper, ("--accumulate", "2")) for wrapper in WRAPPERS)],
)  # fmt: skip
def test_a_healthy_loop_is_not_changed_by_a_bit(wrapper, flags):
    flags = (*WRAPPERS[wrapper], *flags)
    with_it, without = run("image", *flags), run("image", *flags, guard=False)
    healthy(with_it, without)


def test_a_step_of_text_alone_moves_no_tower_under_fsdp2():
    """Without a gradient an optimizer leaves a weight alone; with one of zeros its momentum moves
    it."""
    flags = (*WRAPPERS["fsdp2"], "--momentum", "0.9")
    with_it, without = run("phases", *flags), run("phases", *flags, guard=False)
    assert with_it.returncode == without.returncode == 0, with_it
    verdict = oracle.bitwise(with_it.ranks, without.ranks)
    assert verdict, verdict
    assert "VG106" in with_it.fixed()


def healthy(with_it, without, world=2):
    assert with_it.returncode == without.returncode == 0, with_it
    verdict = oracle.bitwise(with_it.ranks, without.ranks, world=world)
    assert verdict, verdict
    assert {f["outcome"] for f in with_it.findings} <= {"", "set", "noted"}
    assert with_it.output.count("guards torch") == 1


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_healthy_loop_that_is_guarded_by_hand_is_not_changed_by_a_bit(ranks):
    with_it = run("image", *BY_HAND, ranks=ranks)
    healthy(with_it, run("image", *BY_HAND, guard=False, ranks=ranks), ranks)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_tower_cut_off_from_the_loss_stops_a_loop_that_is_guarded_by_hand(ranks):
    without = run("image", *BY_HAND, "--cut", guard=False, ranks=ranks)
    assert without.returncode == 0, without
    with_it = run("image", *BY_HAND, "--cut", ranks=ranks)
    assert with_it.returncode != 0, with_it
    assert "VG302" in with_it.output
