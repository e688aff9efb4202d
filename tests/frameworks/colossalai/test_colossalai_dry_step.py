"""The dry step inside boost: what it reports, and that nothing differs after it by one bit."""

from __future__ import annotations

import functools

import pytest

from tests.frameworks.colossalai import launch
from tests.kit.oracle import bitwise

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]
SETTING = {"VLMGUARD_DRY_STEP": "1"}
SPIED = {"steps": ["image", "image"], "spy": True}
CASES = [
    {"name": "qwen", **SPIED, "guard": {"dry_step": "image"}},
    {"name": "qwen-text", **SPIED, "guard": {"dry_step": "text"}, "precision": "fp16"},
    {"name": "llava", **SPIED, "model": "llava", "guard": {"dry_step": "mixed"}},
    {"name": "frozen", **SPIED, "freeze": True, "guard": {"dry_step": "image"}},
    {"name": "broken", **SPIED, "guard": {"dry_step": "no_grid", "rules": {"VG201": "warn"}}},
    {"name": "loader", **SPIED, "model": "two_tower", "loader": "image", "env": SETTING},
    {"name": "no-batch", **SPIED, "model": "two_tower", "env": SETTING},
    {"name": "ddp", **SPIED, "plugin": "torch_ddp", "guard": {"dry_step": "image"}},
    {"name": "blind", **SPIED, "model": "two_tower", "blind": True, "guard": {"dry_step": "image"}},
    {"name": "lazy", "model": "two_tower", "steps": ["image"], "lazy": True,
     "guard": {"dry_step": "image"}},
]  # fmt: skip
TRAINED = ["qwen", "qwen-text", "llava", "frozen", "loader", "no-batch", "ddp"]
PLAIN = [{**case, "guard": None, "env": {}, "loader": None} for case in CASES]


@functools.cache
def tried():
    return launch.run(CASES, guard=True)


@functools.cache
def untried():
    return launch.run(PLAIN, guard=False)


@pytest.mark.parametrize("name", [*TRAINED, "broken"])
def test_it_leaves_no_trace(name):
    """Parameters, gradients, buffers, optimizer state, random states, modes, module attributes."""
    before, at_wrap = tried().ranks(name)[0]["spied"]
    assert len(before) > 10
    assert {part for part in before if before[part] != at_wrap[part]} == set()


@pytest.mark.parametrize("name", TRAINED)
def test_training_after_it_is_bitwise_the_same(name):
    assert bitwise(tried().weights(name), untried().weights(name), world=1)


def said(name):
    """Its own lines between this case's first line and the next one's."""
    lines = tried().output.splitlines()
    end = next(n for n, text in enumerate(lines) if text.startswith(f"{name}: boosted"))
    start = max(n for n, text in enumerate(lines[:end]) if " guards colossalai " in text)
    return [text for text in lines[start:end] if "dry step" in text]


def test_it_reports_each_towers_gradients_and_their_norm():
    vision, aligner, llm = said("qwen")
    assert "vision: 25 of 25 trainable parameters got a gradient, norm 0." in vision
    assert "aligner: 6 of 6" in aligner
    assert "llm: 26 of 26" in llm
    assert "norm 0" not in llm.replace("norm 0.", "")
    assert [line.split("norm ")[1] for line in said("qwen-text")][:2] == ["0", "0"]
    assert len(said("frozen")) == 1
    assert len(said("loader")) == 3


def test_it_says_where_it_cannot_be_made():
    assert said("lazy") == [
        "vlmguard: dry step: not made: the model is lazily initialised: its weights are not "
        "there yet"
    ]
    assert "no batch; give guard_booster one, or boost a dataloader" in said("no-batch")[0]
    assert "TypeError: 'NoneType' object is not iterable" in said("broken")[-1]
    assert tried().ranks("lazy")[0]["stage"] == "done"


def test_a_tower_without_gradients_stops_before_training():
    (rank,) = tried().ranks("blind")
    assert "VG302: vision does not train: " in rank["error"]
    assert "in the dry step (4 tensors)" in rank["error"]
    assert "losses" not in rank
