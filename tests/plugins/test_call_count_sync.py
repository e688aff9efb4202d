"""Ranks that call a module once per image, differently often: the later one to come sees it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.plugins.toys import Toy, config
from vlmguard.core import runstate
from vlmguard.core.errors import Stop
from vlmguard.core.facts import Run
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.runtime import exchange
from vlmguard_torch.layout import gathered
from vlmguard_transformers.watch import call_count_sync, first_steps


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower, self.words = nn.Linear(2, 2), nn.Linear(2, 2)
        self.places = nn.Identity()

    def forward(self, images):
        for _ in range(images):
            self.tower(self.places(torch.ones(1, 2)))
        self.words(torch.ones(1, 2))


class Rank:
    """A rank of run 1: its model, and what watches it."""

    def __init__(self, paths=("tower",), behind=("places", "words")):
        run = Run("x", strategy="zero3", world=2, per_image=paths)
        self.state = RunState(Settings(), run=run, number=1)
        self.model = Model()
        self.watch = call_count_sync.Abreast(self.state, paths, behind)

    def step(self, *images):
        runstate.opened(self.state)
        try:
            self.watch.step(self.model)
            for each in images:
                self.model(each)
        finally:
            runstate.closed(self.state)


@pytest.fixture
def store(monkeypatch):
    store = torch.distributed.HashStore()
    monkeypatch.setattr(exchange, "_store", lambda: store)
    monkeypatch.setattr(gathered, "at_each_call", lambda model, module: True)
    return store


@pytest.mark.parametrize(("one", "other"), [(2, 1), (1, 2), (1, 3), (3, 1), (3, 2)])
def test_the_later_rank_stops(store, one, other):
    first, second = Rank(), Rank()
    first.step(1, one)
    with pytest.raises(Stop, match="VG113: under zero3 ranks would hang: tower runs"):
        second.step(1, other)


def test_ranks_that_call_it_equally_often_go_on(store):
    first, second = Rank(), Rank()
    for images in ((1,), (2, 3), (0, 1), (5,)):
        first.step(*images)
        second.step(*images)


def test_what_a_forward_that_failed_had_called_is_forgotten(store):
    first, second = Rank(), Rank()
    first.model.words.forward = None
    with pytest.raises(TypeError):
        first.step(2)
    del first.model.words.forward
    second.step(2)
    first.step(1)
    second.step(1)


def test_a_recomputation_is_no_call(store, monkeypatch):
    first, second = Rank(), Rank()
    first.step(1)
    monkeypatch.setattr(call_count_sync, "in_backward", lambda: True)
    second.step(3)


def test_marks_are_cleared_up(store):
    rank = Rank()
    most = 0
    for _ in range(20):
        rank.step(2)
        most = max(most, store.num_keys())
    assert most == store.num_keys() == 2 * call_count_sync._KEPT


def test_without_a_store_nothing_is_watched(store, monkeypatch):
    monkeypatch.setattr(exchange, "_store", lambda: None)
    rank = Rank()
    rank.step(1, 2)
    assert not rank.model.tower._forward_pre_hooks


@pytest.mark.parametrize("names", [{"paths": ("gone",)}, {"behind": ("gone",)}])
def test_names_that_the_model_does_not_have(store, names):
    rank = Rank(**names)
    rank.step(1, 2)
    assert not rank.model.tower._forward_pre_hooks


def test_what_does_not_gather_at_each_call_is_not_watched(store, monkeypatch):
    monkeypatch.setattr(gathered, "at_each_call", lambda model, module: False)
    rank = Rank()
    rank.step(1, 2)
    assert not rank.model.tower._forward_pre_hooks


def weighty(**marks):
    module = nn.Linear(2, 2)
    for name, value in marks.items():
        setattr(module.weight, name, value)
    return module


@pytest.mark.parametrize(
    ("marks", "gathers"),
    [({}, False), ({"ds_persist": True}, False), ({"ds_persist": False}, True)],
)
def test_weights_that_stay_are_not_gathered(marks, gathers):
    module = weighty(**marks)
    model = nn.Sequential(nn.Sequential(module))
    assert gathered.at_each_call(model, module) is gathers
    model[0]._z3_leaf = True
    assert gathered.at_each_call(model, module) is False
    model[0]._z3_leaf, module._z3_leaf = False, True
    assert gathered.at_each_call(model, module) is gathers


@pytest.mark.parametrize(
    ("strategy", "gathers"), [("FULL_SHARD", True), ("SHARD_GRAD_OP", False), ("", False)]
)
def test_units_of_fsdp1(strategy, gathers):
    unit = nn.Linear(2, 2)
    if strategy:
        unit.sharding_strategy = SimpleNamespace(name=strategy)
    assert gathered.at_each_call(unit, nn.Sequential(unit)) is gathers


@pytest.mark.parametrize("gathers", [True, False])
def test_units_of_fsdp2(gathers):
    unit = nn.Linear(2, 2)
    group = SimpleNamespace(post_forward_mesh_info=object() if gathers else None)
    unit._get_fsdp_state = lambda: SimpleNamespace(_fsdp_param_groups=[group])
    assert gathered.at_each_call(unit, unit) is gathers
    unit._get_fsdp_state = lambda: SimpleNamespace(_fsdp_param_group=group)
    assert gathered.at_each_call(unit, unit) is gathers


def test_it_begins_with_a_run_whose_tower_was_observed(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with torch.device("meta"):
        model = Toy(config(per_image=True))
    run = Run("x", strategy="zero3", world=2, per_image=("tower",))
    for changed, watched in (({}, True), ({"world": 1}, False), ({"strategy": "zero2"}, False),
                             ({"per_image": ()}, False)):  # fmt: skip
        state = RunState(Settings(), run=Run(**{**vars(run), **changed}))
        call_count_sync.start(SimpleNamespace(model=model), state)
        assert (call_count_sync.KEY in state.kept) is watched
        if watched:
            behind = state.kept[call_count_sync.KEY].behind
            assert {"aligner", "words", "layers.0", "head"} <= set(behind)
            assert not [path for path in behind if path.startswith("tower")]


def test_a_run_steps_what_is_kept_under_this_name():
    """`first_steps` knows the name without the file, which is imported where ranks can part."""
    assert first_steps.ABREAST == call_count_sync.KEY
