"""FlagEmbedding's real training modules in gloo ranks: guard off, guard on, and the reference."""

from __future__ import annotations

import functools
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.frameworks.flagembedding import launch
from tests.frameworks.flagembedding.cases import CASES, HEALTHY, NEW, Case, Healthy, zero
from tests.kit.oracle import bitwise, compare
from tests.kit.runs import Outcome

ALWAYS = ("reranker-lora", "embedder-full-zero2", "embedder-full-zero3-silent")
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900),
              pytest.mark.drawn(2, always=ALWAYS)]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@functools.cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8)


def start(case: Case, *, guard: bool) -> Future[Outcome]:
    """The user's command."""
    flags = (*case.flags, *case.spread, *case.checkpoints)
    return pool().submit(
        launch.run, case.module, flags, guard=guard, over=case.over, ranks=case.ranks
    )


def reference(case: Case) -> Outcome:
    """The same training without checkpointing, under plain DDP."""
    right = launch.run(case.module, case.flags, guard=False, over=case.over, ranks=case.ranks)
    assert right.returncode == 0, right
    return right


@each_case
def test_broken_without_the_guard(case: Case) -> None:
    off = start(case, guard=False)
    if case.broken != "wrong":
        assert off.result().returncode != 0, off.result()
        assert case.broken in off.result().output, off.result()
        return
    right = reference(case)
    assert off.result().returncode == 0, off.result()
    assert not compare(off.result().ranks, right.ranks, world=case.ranks)


@each_case
def test_right_with_the_guard(case: Case) -> None:
    on = start(case, guard=True)
    right = reference(case)
    assert on.result().returncode == 0, on.result()
    verdict = compare(on.result().ranks, right.ranks, world=case.ranks)
    assert verdict, verdict
    assert case.fixes in on.result().fixed(), on.result().findings
    assert {found["outcome"] for found in on.result().findings} == {"fixed"}, on.result().findings


@pytest.mark.parametrize("case", HEALTHY, ids=lambda case: case.name)
def test_healthy_runs_stay_bitwise_equal(case: Healthy) -> None:
    runs = [
        pool().submit(launch.run, case.module, case.flags, guard=guard, over=case.over)
        for guard in (False, True)
    ]
    off, on = (run.result() for run in runs)
    assert off.returncode == 0, off
    assert on.returncode == 0, on
    verdict = bitwise(on.ranks, off.ranks)
    assert verdict, verdict
    assert {found["level"] for found in on.findings} <= {"note"}, on.findings


def test_a_run_that_an_empty_group_ends_is_told_before() -> None:
    """LoRA under DeepSpeed, transformers 4.51.3 beside torch 2.13: it ends by itself."""
    flags = zero("zero2")
    off = launch.run("reranker_decoder", flags, guard=False)
    on = launch.run("reranker_decoder", flags, guard=True)
    for run in (off, on):
        assert run.returncode != 0
        assert "ValueError: zip() argument 2 is longer than argument 1" in run.output
    assert "VG409" in {found["code"] for found in on.findings if found["outcome"] == "warned"}
    fixed = launch.run("reranker_decoder", flags, guard=True, over=NEW)
    assert fixed.returncode == 0
    assert "VG409" not in {found["code"] for found in fixed.findings}
