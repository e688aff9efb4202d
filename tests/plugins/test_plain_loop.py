"""Loops in plain torch, in process: where DDP takes a model that no adapter knows. Real ranks:
tests/frameworks/torch/test_plain_loop_ranks.py."""

from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType, SimpleNamespace

import pytest
import torch

from tests.plugins.test_profiles import Model
from vlmguard import guard
from vlmguard.core import runstate
from vlmguard.runtime import faults
from vlmguard_accelerate import loaders, loop, plain_loop
from vlmguard_accelerate.standin import Ddp
from vlmguard_torch.ledger import start
from vlmguard_transformers import accelerators


@pytest.fixture(autouse=True)
def two_ranks(monkeypatch):
    """As rank 0 of two."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(accelerators, "of_trainers", weakref.WeakSet())
    monkeypatch.setattr(plain_loop, "_READS", "torch")  # without transformers classes are read, too
    monkeypatch.setattr(loaders, "_made", [])
    faults._said.clear()
    yield
    for state in reversed(runstate.opens()):
        guard.close(state)


class Wrapper(torch.nn.Module):
    """In DDP's place."""

    def __init__(self, model):
        super().__init__()
        self.module, self.given = model, None

    def init(self, *args, **kwargs):
        self.given = args[1:], kwargs

    def forward(self, *args):
        return self.module(*args)


def wrap(model, *args, **kwargs):
    made = Wrapper(model)
    plain_loop.wrapped(made.init, made, (model, *args), kwargs)
    return made


def test_a_model_with_towers_is_judged_and_the_framework_called_as_it_was_asked():
    made = wrap(Model(), gradient_as_bucket_view=True)
    assert made.given == ((), {"gradient_as_bucket_view": True})
    assert [state.run.framework for state in runstate.opens()] == ["torch"]
    assert not faults._said


@pytest.mark.parametrize("kept", [True, False])
def test_what_the_plan_changes_is_what_ddp_is_given(kept):
    ddp = Ddp(Model(), {"static_graph": True})
    ddp.ddp_handler.find_unused_parameters = not kept

    state = SimpleNamespace(kept={plain_loop._TAKER: ddp})
    assert plain_loop._options(state) == ({} if kept else {"find_unused_parameters": True})


def test_the_ledger_is_of_the_ranks_that_ddp_averages(monkeypatch):
    groups = []
    monkeypatch.setattr(start, "group_of", lambda wrapper: "two ranks of four")
    monkeypatch.setattr(start, "watch", lambda *_, group, **__: groups.append(group))
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plain_loop.optimizers.note(optimizer)
    wrap(model)(torch.ones(1, 2))
    assert groups == ["two ranks of four"]
    assert not faults._said


def test_steps_are_watched_by_the_optimizer_that_moves_the_model():
    model, other = Model(), torch.nn.Linear(1, 1)
    ours, theirs = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, other))
    for each in (ours, theirs):
        plain_loop.optimizers.note(each)
    made = wrap(model)
    (state,) = runstate.opens()
    for _ in range(2):
        made(torch.ones(1, 2)).sum().backward()
        ours.step()
        ours.zero_grad()
    assert runstate.of(ours) is state
    assert runstate.of(theirs) is None
    assert state.stepped
    assert not faults._said


@pytest.mark.parametrize(
    "case", ["another run", "an accelerator", "colossalai", "no transformers", "one rank",
             "text", "frozen", "positional"],
)  # fmt: skip
def test_it_is_silent_where_it_is_not_its_turn(case, monkeypatch):
    model, args = Model(), ()
    match case:
        case "another run":
            other = wrap(Model())  # noqa: F841
        case "an accelerator":
            monkeypatch.setattr(loop, "_preparing", 1)
        case "colossalai":
            monkeypatch.setitem(sys.modules, "colossalai", ModuleType("colossalai"))
        case "no transformers":
            monkeypatch.setattr(plain_loop, "_READS", "no such module")
        case "one rank":
            monkeypatch.setenv("WORLD_SIZE", "1")
        case "text":
            model = torch.nn.Linear(1, 1)
        case "frozen":
            model.requires_grad_(False)
        case "positional":
            args = (None, None, 0, True)
    before = runstate.opens()
    made = wrap(model, *args)
    assert made.given == (args, {})
    assert runstate.opens() == before


@pytest.mark.parametrize("answer", ["a word", 3, [], object()])
def test_an_upset_look_changes_nothing(answer, monkeypatch, capsys):
    monkeypatch.setattr(plain_loop, "_begin", lambda *_: answer)
    assert wrap(Model(), broadcast_buffers=False).given == ((), {"broadcast_buffers": False})


def test_a_fault_of_ours_leaves_the_framework_alone(monkeypatch, capsys):
    monkeypatch.setattr(loop, "trains_towers", lambda _: 1 / 0)
    assert wrap(Model()).given == ((), {})
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_run_ends_with_its_wrapper():
    made = wrap(Model())
    assert runstate.opens()
    del made
    gc.collect()
    assert not runstate.opens()


def test_the_first_loader_that_is_still_there():
    made = [torch.utils.data.DataLoader([1]) for _ in range(2)]
    for each in made:
        loaders.noted(lambda *_, **__: None, each, (), {})
    assert loaders.first() is made[0]
    del made[0], each
    gc.collect()
    assert loaders.first() is made[0]
