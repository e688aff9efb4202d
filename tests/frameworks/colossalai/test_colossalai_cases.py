"""Real Gemini in gloo ranks: broken without the guard, right with it, stopped by wish."""

from __future__ import annotations

import functools

import pytest
import torch

from tests.frameworks.colossalai import launch
from tests.frameworks.colossalai.cases import ALONE, CASES, HANG, HANGS, PAIR, TEXT, WRONG
from tests.frameworks.colossalai.halves import compare
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
BY_NAME = {case.name: case for case in CASES}
SILENT = [case for case in CASES if case.wish.get("max_norm") == 0 and case.broken == WRONG]
QUIET = 25.0  # seconds; a case takes less than one


@functools.cache
def off(world):
    """What does not hang without the guard, and every reference."""
    broken = ALONE if world == 1 else PAIR
    wishes = [c.off for c in broken]
    wishes += [c.reference for c in (broken if world == 1 else (*PAIR, *HANGS))]
    return launch.run(wishes, guard=False, world=world)


@functools.cache
def on(world):
    cases = ALONE if world == 1 else (*PAIR, *HANGS)
    stopping = [c.stopping for c in ALONE] if world == 1 else []
    wishes = [*(c.on for c in cases), *stopping]
    return launch.run(wishes, guard=True, world=world, limit=480.0)


@pytest.mark.parametrize("name", [c.name for c in (*ALONE, *PAIR)])
def test_broken_without_the_guard(name):
    case = BY_NAME[name]
    done = off(case.world)
    if case.broken == WRONG:
        reference = done.weights(f"{name}-reference")
        assert not compare(done.weights(name), reference, world=case.world)
        return
    for rank in done.ranks(name):
        assert case.broken in rank["error"], rank["error"]
        assert rank["stage"].endswith(("backward", "optimizer"))


@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", [c.name for c in HANGS])
def test_hangs_without_the_guard(name):
    done = launch.run([BY_NAME[name].off], guard=False, world=2, quiet=QUIET)
    assert done.hung == (BY_NAME[name].broken == HANG), done.output[-3000:]
    assert done.hung or BY_NAME[name].broken in done.output
    assert done.output.count(f"{name}: boosted on rank") == 2


@pytest.mark.parametrize("name", BY_NAME)
def test_right_with_the_guard(name):
    case = BY_NAME[name]
    ours, reference = on(case.world).weights(name), off(case.world).weights(f"{name}-reference")
    verdict = compare(ours, reference, world=case.world)
    assert verdict, str(verdict)
    ranks = {(record["code"], record["rank"]) for record in on(case.world).records(name)}
    assert ranks == {(code, rank) for code in case.fixes for rank in range(case.world)}
    assert {outcome for _, outcome in on(case.world).outcomes(name)} == {"fixed"}


@pytest.mark.parametrize("name", [c.name for c in ALONE])
def test_policy_error_stops_before_forward_and_names_what_is_missing(name):
    case, done = BY_NAME[name], on(1)
    (rank,) = done.ranks(f"{name}-error")
    step = next(number for number, what in enumerate(case.wish["steps"]) if what == "text")
    if "stale" in name:  # its first window begins with an image
        step = 2
    assert rank["stage"] == f"step {step} forward"
    assert rank["error"].startswith("Stop: vlmguard stopped this run (rank 0). VG205")
    model = case.wish.get("model", "qwen2_vl")
    keys = {"two_tower": "pixel_values", "other": "images", "llava": "pixel_values"}
    assert f"; no {keys.get(model, 'pixel_values')}" in rank["error"]
    every = f"this batch has no {keys.get(model, 'pixel_values, image_grid_thw')}"
    assert any(every in each["evidence"] for each in done.records(f"{name}-error"))
    assert (len(rank["losses"]), done.outcomes(f"{name}-error")) == (step, {("VG205", "stopped")})


def towards_zero(ranks):
    """Share of vision weights whose size fell."""
    before, after = (
        torch.cat([w.flatten() for n, w in weights.items() if n.split(".")[0] in towers])
        for towers in [("visual", "vision", "image_encoder")]
        for weights in (ranks[0].initial, ranks[0].final)
    )
    return (after.abs() < before.abs()).double().mean().item()


@pytest.mark.parametrize("name", [c.name for c in SILENT if "stale" not in c.name])
def test_vision_moves_towards_zero_only_without_the_guard(name):
    world = BY_NAME[name].world
    assert towards_zero(off(world).weights(name)) > 0.75
    assert towards_zero(on(world).weights(name)) < 0.6


HEALTHY = [
    {"name": "qwen", "steps": ["image", "mixed", "image"]},
    {"name": "qwen-fp16", "steps": ["image", "image"], "precision": "fp16", "chunks": "mixed"},
    {"name": "qwen25", "model": "qwen2_5_vl", "steps": ["image", "image"], "decay": 0.1},
    {"name": "llava", "model": "llava", "steps": ["image", "mixed"], "chunks": "one"},
    {"name": "tower", "model": "two_tower", "steps": ["image", "image"], "precision": "fp16"},
    {"name": "other", "model": "other", "steps": ["mixed", "image"], "chunks": "900"},
    {"name": "window", "steps": ["image"] * 4, "accumulate": 2, "enable_accumulation": True},
    {"name": "frozen", "steps": ["image", "image"], "freeze": True},
    {"name": "lora", "steps": ["image", "image"], "lora": "before", "chunks": "one"},
    {"name": "checkpointed", "steps": ["image", "image"], "checkpointing": {}},
    {"name": "zero", "steps": ["image", "image"], "plugin": "low_level_zero"},
    {"name": "ddp", "steps": ["image", "image"], "plugin": "torch_ddp", "find_unused": True},
]
ONE_ONLY = [
    {"name": "tower-window", "model": "two_tower", "steps": TEXT, "accumulate": 2,
     "enable_accumulation": True},
    {"name": "frozen-text", "steps": TEXT, "freeze": True},
    {"name": "zero-text", "steps": TEXT, "plugin": "low_level_zero"},
]  # fmt: skip


@functools.cache
def healthy(guard, world):
    cases = HEALTHY if world == 2 else [*HEALTHY, *ONE_ONLY]
    return launch.run(cases, guard=guard, world=world)


@pytest.mark.parametrize("world", [1, 2])
def test_healthy_runs_stay_bitwise_equal(world):
    without, with_guard = healthy(False, world), healthy(True, world)
    for case in HEALTHY if world == 2 else [*HEALTHY, *ONE_ONLY]:
        name = case["name"]
        verdict = bitwise(with_guard.weights(name), without.weights(name), world=world)
        assert verdict, f"{name}: {verdict}"
        levels = {record["level"] for record in with_guard.records(name)}
        assert levels <= {"note"}, with_guard.records(name)


def test_the_text_towers_updates_are_those_of_a_frozen_vision_tower():
    """The masked image changes nothing that the language model learns, and gives no gradient."""
    text = {"steps": ["text", "text"]}
    done = launch.run([{"name": "completed", **text}], guard=True)
    frozen = launch.run([{"name": "frozen", **text, "freeze": True}], guard=False)
    trained, reference = done.ranks("completed")[0], frozen.ranks("frozen")[0]
    moved = [n for n, w in trained["before"].items() if not torch.equal(w, trained["after"][n])]
    assert moved
    assert not [name for name in moved if name.startswith("visual")]
    for name in reference["trainable"]:
        start, end = reference["before"][name], reference["after"][name]
        off = (trained["after"][name] - end).norm() / (end - start).norm()
        assert off < 2e-3, f"{name}: {off:.2%}"
