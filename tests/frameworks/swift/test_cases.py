"""The real ``swift`` command in two gloo ranks, guard off, guard on, and its reference."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.frameworks.swift.cases import (
    CASES,
    HEALTHY,
    LLAVA,
    NO_CHECKPOINTS,
    SFT,
    UNUSED,
    zero,
)
from tests.kit import swift
from tests.kit.oracle import bitwise, compare

BY_NAME = {case.name: case for case in CASES}
ALWAYS = {each.name for each in (*CASES, *HEALTHY) if each.cold}
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900),
              pytest.mark.drawn(2, always=(*ALWAYS, "qwen3-ranks-differ", "old-sft-lora"))]


@functools.cache
def pool():
    return ThreadPoolExecutor(8)


def _start(case, flags, guard):
    flags = [flag.replace("{data}", str(swift.dataset())) for flag in flags]
    return pool().submit(
        swift.run, case.verb, case.model, case.data, flags,
        guard=guard, env=case.env, over=case.over, timeout=case.limit, extra=case.extra,
        cold=case.cold,
    )  # fmt: skip


@functools.cache
def three(name):
    """Futures of the guard-off, guard-on and reference runs; the pool runs them side by side."""
    case = BY_NAME[name]
    return (
        _start(case, case.flags, False),
        _start(case, case.flags, True),
        _start(case, case.right(), False),
    )


def tail(outcome):
    return outcome.output[-3000:]


@pytest.mark.parametrize("name", BY_NAME)
def test_broken_without_the_guard(name):
    case, (off, _, reference) = BY_NAME[name], three(name)
    off = off.result()
    if case.broken == "hang":
        assert off.hung, tail(off)
    elif case.broken == "wrong":
        assert off.returncode == 0, tail(off)
        assert not compare(off.ranks, reference.result().ranks)
    else:
        assert off.returncode != 0
        assert case.broken in off.output, tail(off)


@pytest.mark.parametrize("name", BY_NAME)
def test_right_with_the_guard(name):
    case, (_, on, reference) = BY_NAME[name], three(name)
    on, reference = on.result(), reference.result()
    assert reference.returncode == 0, tail(reference)
    assert on.returncode == 0, tail(on)
    verdict = compare(on.ranks, reference.ranks)
    assert verdict, str(verdict)
    assert case.fixes <= on.fixed()
    assert "VG902" not in {finding["code"] for finding in on.findings}


@functools.cache
def pair(name):
    case = next(case for case in HEALTHY if case.name == name)
    return tuple(
        pool().submit(
            swift.run, case.verb, case.model, case.data, case.flags, guard=guard, cold=case.cold
        )
        for guard in (False, True)
    )


@pytest.mark.parametrize("name", [case.name for case in HEALTHY])
def test_healthy_runs_stay_bitwise_equal(name):
    off, on = (future.result() for future in pair(name))
    assert off.returncode == 0, tail(off)
    assert on.returncode == 0, tail(on)
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)
    assert {finding["level"] for finding in on.findings} <= {"note"}, on.findings


LORA = ["--tuner_type", "lora"]


def test_freeze_wish_is_enforced_and_a_stop_brings_every_rank_down():
    flags = [*LORA, "--freeze_vit", "false"]
    frozen = swift.run(["sft"], "qwen2_vl", "image", [*flags, "--vlmguard-freeze", "vision",
                       "aligner"], guard=True)  # fmt: skip
    assert frozen.returncode == 0, tail(frozen)
    assert "VG301" in frozen.fixed()
    for rank in frozen.ranks:
        moved = [n for n, w in rank.initial.items() if not w.equal(rank.final[n])]
        assert moved
        assert not [name for name in moved if "visual" in name]
    stopped = swift.run(
        ["sft"], "qwen2_vl", "image",
        [*LORA, "--gradient_checkpointing_kwargs", '{"use_reentrant": true}', "--vlmguard",
         "VG101=error"], guard=True,
    )  # fmt: skip
    assert stopped.returncode != 0
    assert not stopped.ranks
    block = stopped.output[stopped.output.rindex("Root Cause") :]
    assert "VG101" in block, tail(stopped)


def test_bad_settings_stop_before_training_and_off_still_takes_the_flags():
    wrong = swift.run(["sft"], "qwen2_vl", "image", [*LORA, "--vlmguard", "VG999=off"], guard=True)
    assert wrong.returncode != 0
    assert "no rule has the code VG999" in wrong.output
    off = swift.run(["sft"], "qwen2_vl", "image", [*LORA, "--vlmguard", "VG999=off"], guard=False)
    assert off.returncode == 0, tail(off)


def test_spawned_workers():
    """Wrapped bound methods reach spawned dataloader workers, and work there. (On LLaVA: in a
    spawned worker ms-swift's Qwen2-VL template asks for the model's type and finds two.)"""
    flags = [*LORA, "--dataloader_num_workers", "1", "--dataloader_multiprocessing_context",
             "spawn"]  # fmt: skip
    done = swift.run(["sft"], "llava", "image", flags, guard=True)
    assert done.returncode == 0, tail(done)
    assert "VG902" not in done.output


def test_a_text_step_after_an_image_step_costs_no_bit_under_zero2():
    """Ranks that differ would hang there, so the towers run in every step; these do not differ."""
    flags = [*LLAVA, *zero(2)]
    off, on = (
        swift.run(SFT, "llava", "phases", flags, guard=guard, cold=False) for guard in (False, True)
    )
    assert (off.returncode, on.returncode) == (0, 0), tail(on)
    assert "VG106" in on.fixed()
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)


def test_ranks_that_differ_under_zero2_equal_ddp():
    off, on = (
        swift.run(SFT, "llava", "mixed", [*LLAVA, *zero(2)], guard=guard, cold=False)
        for guard in (False, True)
    )
    ddp = swift.run(
        SFT, "llava", "mixed", [*LLAVA, *NO_CHECKPOINTS, *UNUSED], guard=False, cold=False
    )
    assert off.hung or off.returncode != 0
    assert (on.returncode, ddp.returncode) == (0, 0), tail(on)
    verdict = compare(on.ranks, ddp.ranks)
    assert verdict, str(verdict)
