"""What takes a plain loop's model besides DDP, in process: DeepSpeed's engine, ``fully_shard``, or
nothing but `vlmguard.guard_model`. Real ranks: tests/frameworks/torch/test_plain_loop_ranks.py."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
import torch

import vlmguard
from tests.plugins.test_plain_loop import two_ranks  # noqa: F401
from tests.plugins.test_profiles import Model
from vlmguard.core import runstate
from vlmguard.runtime import faults
from vlmguard_accelerate import by_hand, engine, loop, plain_loop, sharded
from vlmguard_torch.ledger import optimizers


class Engine(torch.nn.Module):
    """In the place of DeepSpeed's."""

    def __init__(self) -> None:
        super().__init__()
        self.steps, self.boundary = 0, True

    def init(self, **kwargs):
        self.module, self.optimizer = kwargs["model"], kwargs["optimizer"]

    def forward(self, x):
        return self.module(x)

    def is_gradient_accumulation_boundary(self):
        return self.boundary

    def moved(self):
        self.steps += 1
        return "moved"


def take(model, stage=2, kind=Engine, **kwargs):
    made = kind()
    settings = SimpleNamespace(
        _param_dict={"zero_optimization": {"stage": stage}, "gradient_clipping": 0.0},
        gradient_accumulation_steps=2, optimizer_name=None,
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = {"model": model, "optimizer": optimizer, "config_class": settings, **kwargs}
    engine.taken(made.init, made, (), given)
    return made


@pytest.mark.parametrize("stage", range(4))
def test_an_engine_is_judged_by_its_config(stage):
    made = take(Model(), stage)
    (state,) = runstate.opens()
    assert (state.run.strategy, state.run.accumulation) == (f"zero{stage}", 2)
    assert state.run.clipping == "written"
    assert runstate.of(made) is runstate.of(made.optimizer) is state
    assert not faults._said


def test_a_step_is_summed_up_where_a_window_ends():
    made = take(Model())
    (state,) = runstate.opens()
    for made.boundary in (False, True):
        made(torch.ones(1, 2)).sum().backward()
        assert engine.step(made.moved, made, (), {}) == "moved"
        assert state.stepped is made.boundary
    assert made.steps == 2
    assert not faults._said


class Pipeline(Engine):
    def train_batch(self):
        """Runs stages, not the model."""


@pytest.mark.parametrize("case", ["no optimizer", "frozen", "text", "pipeline", "odd config",
                                  "an accelerator", "a trainer's"])  # fmt: skip
def test_an_engine_that_is_not_the_loops_is_left_alone(case, monkeypatch):
    model, more, kind = Model(), {}, Engine
    trainers = SimpleNamespace(accelerator=Model())
    match case:
        case "no optimizer":
            more = {"optimizer": None}
        case "frozen":
            model.requires_grad_(False)
        case "text":
            model = torch.nn.Linear(1, 1)
        case "pipeline":
            kind = Pipeline
        case "odd config":
            more = {"config_class": None}
        case "an accelerator":
            monkeypatch.setattr(loop, "_preparing", 1)
        case "a trainer's":
            plain_loop.accelerators.note(trainers)
    made = take(model, kind=kind, **more)
    assert made.module is model
    assert not runstate.opens()
    assert not faults._said


def test_a_second_engine_is_left_alone():
    first = take(Model())
    take(Model())
    assert [runstate.of(first)] == runstate.opens()


def test_what_an_engine_raises_is_heard_and_goes_on(monkeypatch):
    made, heard = take(Model()), []
    monkeypatch.setattr(plain_loop.guard, "on_error", lambda *told: heard.append(told))

    def fails():
        raise RuntimeError("as it was")

    for call in (engine.backward, engine.step):
        with pytest.raises(RuntimeError, match="as it was"):
            call(fails, made, (), {})
    assert [str(error) for _, _, error in heard] == ["as it was"] * 2


def split(*models):
    for each in models:
        assert sharded.taken(lambda module: module, None, (each,), {}) is each


class Whole(torch.nn.Module):
    """A model whose inner part holds the tower."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.head = Model(), torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.head(self.model(x))


def test_parts_are_passed_over_and_the_whole_is_judged():
    model = Model()
    split(model.visual, model.lm_head)
    assert not runstate.opens()
    split(model)
    (state,) = runstate.opens()
    assert state.run.strategy == "fsdp2"
    assert runstate.of(model) is state
    assert not faults._said


def test_the_run_of_a_part_ends_with_the_whole():
    model = Whole()
    split(model.model, model)
    (state,) = runstate.opens()
    assert runstate.of(model) is state
    split(Model())  # another one is left alone
    assert runstate.opens() == [state]
    split([model.head])
    assert runstate.opens() == [state]


def train(model, optimizer):
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("how", ["split", "by hand", "by hand, given"])
def test_steps_are_watched(how):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    match how:
        case "split":
            split(model)
        case "by hand":
            vlmguard.guard_model(model)
        case "by hand, given":
            vlmguard.guard_model(model, optimizer, [1, 2], list)
    if how != "by hand, given":
        optimizers.note(optimizer)
    train(model, optimizer)
    (state,) = runstate.opens()
    assert runstate.of(optimizer) is state
    assert state.stepped
    assert not faults._said


@pytest.mark.parametrize("backwards", [1, 2])
def test_forwards_are_counted_before_one_backward(backwards):
    """Accumulation is no second forward."""
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    vlmguard.guard_model(model, optimizer)
    (state,) = runstate.opens()
    losses = [model(torch.ones(1, 2)).sum()]
    if backwards == 2:
        losses.pop().backward()
    sum([*losses, model(torch.ones(1, 2)).sum()]).backward()
    optimizer.step()
    assert state.run.forwards == 3 - backwards
    assert not faults._said


def test_by_hand_once_and_said(capsys):
    model = Model()
    for _ in range(2):
        assert vlmguard.guard_model(model) is model
    assert len(runstate.opens()) == 1
    assert capsys.readouterr().err.count("guards torch") == 1
    del model
    gc.collect()
    assert not runstate.opens()


def test_by_hand_behind_an_automatic_begin_does_nothing():
    made = take(Model())
    vlmguard.guard_model(made.module)
    assert runstate.opens() == [runstate.of(made)]


@pytest.mark.parametrize("how", ["ddp", "split", "engine"])
def test_what_takes_the_model_later_goes_on_from_there(how):
    from tests.plugins.test_plain_loop import wrap

    model = vlmguard.guard_model(Model())
    made = {"ddp": wrap, "split": split, "engine": take}[how](model)  # noqa: F841
    (state,) = runstate.opens()
    assert state.run.strategy == {"ddp": "ddp", "split": "fsdp2", "engine": "zero2"}[how]


@pytest.mark.parametrize(
    ("model", "said"),
    [(torch.nn.Linear(1, 1), "no tower"), (Model().requires_grad_(False), "no parameter")],
)
def test_what_cannot_be_guarded_is_said_in_one_line(model, said, capsys):
    assert vlmguard.guard_model(model) is model
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert said in told[0]
    assert not runstate.opens()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": None}, "model must be a torch.nn.Module, not NoneType"),
        ({"model": Model}, "not the class Model"),
        ({"optimizer": 1}, "optimizer must be"),
        ({"optimizer": torch.optim.SGD}, "optimizer must be .* not the class SGD"),
        ({"dataset": 1}, "dataset must be"),
        ({"collate_fn": []}, "collate_fn must be callable, not list"),
    ],
)
def test_a_wrong_argument_is_named(given, said):
    with pytest.raises(TypeError, match=said):
        vlmguard.guard_model(**{"model": Model(), **given})
    assert not runstate.opens()


def test_by_hand_switched_off(monkeypatch):
    monkeypatch.setenv("VLMGUARD", "off")
    assert vlmguard.guard_model(None) is None
    assert not runstate.opens()


@pytest.mark.parametrize("answer", ["a word", 3, [], object()])
def test_an_upset_look_changes_nothing(answer, monkeypatch, capsys):
    for each in (engine, sharded, by_hand):
        name = "begin" if each is by_hand else "_begin"
        monkeypatch.setattr(each, name, lambda *_: answer)
    model = Model()
    split(model)
    made = take(model)
    assert engine.step(made.moved, made, (), {}) == "moved"
    assert vlmguard.guard_model(model) is model
