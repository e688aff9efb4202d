"""TRL, LLaMA-Factory, a plain Trainer and an accelerate loop: guard off, guard on, the reference.

`make test` draws two of the telling ones; the rest is marked `campaign` as well (`make
frameworks`). What is not in `BY_COMMAND` runs in ranks forked from a process that has imported the
framework: the same scripts and flags, without the launcher.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.frameworks.trainers.cases import CASES, HANGS, HEALTHY, WRONG
from tests.kit import trainers
from tests.kit.oracle import bitwise, compare

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900), pytest.mark.drawn(2)]
TELLING = ("trl-sft-zero3-phases", "lf-lora-iv", "plain-mixed")
BY_COMMAND = (*TELLING, "trl-dpo-zero3-phases", "trl-module-zero3-phases", "trl-grpo-zero3-mixed",
              "trl-0.25-sft-lora", "lf-0.9.3-lora-iv", "2u1-57",
              "plain-mixed-accelerate")  # fmt: skip
TELLING_HEALTHY = ("trl-sft-mixed", "lf-zero3-phases")


def chosen(names, telling):
    """The names as parameters; those that are not telling carry the second mark."""
    rest = pytest.mark.campaign
    return [pytest.param(name, marks=[] if name in telling else [rest]) for name in names]


@functools.cache
def pool():
    return ThreadPoolExecutor(4)


def _start(case, command, guard):
    return pool().submit(
        trainers.run, command, guard=guard, ranks=case.ranks, timeout=case.limit,
        extra=case.environment, cold=case.name in BY_COMMAND,
    )  # fmt: skip


@functools.cache
def three(name):
    """Futures of the guard-off, guard-on and reference runs."""
    case = CASES[name]
    return (
        _start(case, case.command, False),
        _start(case, case.command, True),
        _start(case, case.reference, False),
    )


def tail(outcome):
    return outcome.output[-3000:]


@pytest.mark.parametrize("name", chosen(CASES, TELLING))
def test_broken_without_the_guard(name):
    case, (off, _, reference) = CASES[name], three(name)
    off = off.result()
    if case.broken == HANGS:
        assert off.hung or off.returncode != 0, tail(off)
        assert len(off.ranks) < case.ranks
    elif case.broken == WRONG:
        assert off.returncode == 0, tail(off)
        assert not compare(off.ranks, reference.result().ranks, world=case.ranks)
    else:
        assert off.returncode != 0
        assert case.broken in off.output, tail(off)


@pytest.mark.parametrize("name", chosen(CASES, TELLING))
def test_right_with_the_guard(name):
    case, (_, on, reference) = CASES[name], three(name)
    on, reference = on.result(), reference.result()
    assert reference.returncode == 0, tail(reference)
    assert on.returncode == 0, tail(on)
    verdict = compare(on.ranks, reference.ranks, world=case.ranks)
    assert verdict, str(verdict)
    assert case.fixes <= on.fixed(), on.findings
    assert "VG902" not in {finding["code"] for finding in on.findings}
    _guarded_once(on, case.command, case.ranks)


def _guarded_once(on, command, ranks):
    """By the profile that owns the trainer, and by no other: a Trainer's Accelerator is its own."""
    headers = [record for record in on.report() if record["kind"] == "header"]
    assert {each["framework"] for each in headers} == {command.framework}
    assert sorted(each["rank"] for each in headers) == list(range(ranks))


@pytest.mark.parametrize("name", chosen(HEALTHY, TELLING_HEALTHY))
def test_healthy_runs_stay_bitwise_equal(name):
    cold = name in TELLING_HEALTHY
    futures = [
        pool().submit(trainers.run, HEALTHY[name], guard=guard, cold=cold)
        for guard in (False, True)
    ]
    off, on = (future.result() for future in futures)
    assert off.returncode == 0, tail(off)
    assert on.returncode == 0, tail(on)
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, str(verdict)
    assert {finding["level"] for finding in on.findings} <= {"note"}, on.findings
