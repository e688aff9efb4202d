"""Where the ledger begins: in a trainer's run, in a plain loop under DDP, by a call."""

from __future__ import annotations

import gc
import types
import weakref

import pytest
import torch

from tests.plugins.ledger_toys import Toy, batch
from vlmguard import guard, ledger
from vlmguard.core import runstate
from vlmguard.core.facts import Run, Tower
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard_torch.ledger import optimizers, watcher, wrappers
from vlmguard_transformers import lifecycle, profiles
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.watch import first_steps
from vlmguard_transformers.watch import ledger as of_trainers


class Logs(types.SimpleNamespace):
    """A trainer that logs."""

    def log(self, logs):
        self.logged = dict(logs)


def trained(number, setting="first", log=False, **more):
    """A trainer's run of so many steps."""
    model = Toy()
    towers = (Tower("vision", ("visual",), 2, 2), Tower("llm", ("layer",), 2, 2))
    used = Settings(ledger=setting, log=log)
    state = RunState(used, run=Run("x", strategy="single", towers=towers))
    trainer = Logs(
        model=model,
        accelerator=types.SimpleNamespace(sync_gradients=True, state=None),
        optimizer=torch.optim.SGD(model.parameters(), 0.1),
        state=types.SimpleNamespace(global_step=100),
        **more,
    )
    runstate.bind(trainer, state)
    runstate.opened(state)
    first_steps.start(Reading(trainer, profiles.PLAIN), state)
    for n in range(number):
        once(trainer, model, n)
    return trainer, state


def once(trainer, model, n):
    def training_step(model, inputs):
        model(**inputs).backward()

    lifecycle.training_step(training_step, trainer, (model, batch(n)), {})
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()


def test_a_trainers_run_has_its_books_kept():
    trainer, state = trained(4)
    [found] = watcher.of(trainer.optimizer)
    assert (found.window, found.pages[0]["step"]) == (4, 103)
    guard.close(state)
    assert found.closed
    assert not trainer.model._forward_pre_hooks


def test_a_checkpoint_has_the_next_window_watched():
    trainer, state = trained(5)
    [found] = watcher.of(trainer.optimizer)
    of_trainers.save(lambda: None, trainer, (), {})
    once(trainer, trainer.model, 5)
    assert found.pages[0]["window"] == 5
    guard.close(state)


@pytest.mark.parametrize("log", [True, False])
def test_its_numbers_go_into_the_trainers_logs_where_the_setting_asks_for_it(log):
    """Not only `logs.watch` by itself: the run's own steps put it in place."""
    trainer, state = trained(4, log=log)
    trainer.log({"loss": 1.0})
    assert any(name.startswith("vlmguard/") for name in trainer.logged) is log
    guard.close(state)
    trainer.log({"loss": 1.0})
    assert trainer.logged == {"loss": 1.0}


def test_off_is_off(monkeypatch):
    trainer, state = trained(2, "off")
    assert watcher.of(trainer.optimizer) == []
    guard.close(state)
    monkeypatch.setenv("VLMGUARD", "off")
    assert ledger.watch(trainer.model, trainer.optimizer) is None


@pytest.mark.parametrize("number", [1, 5])
def test_the_model_of_a_run_is_let_go(number):
    trainer, state = trained(number)
    gone = weakref.ref(trainer.model)
    guard.close(state)
    del trainer, state
    gc.collect()
    assert gone() is None


def test_a_loop_of_ones_own():
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    said = []
    made = ledger.watch(model, optimizer, on_verdicts=lambda step, _: said.append(step))
    assert ledger.watch(model, optimizer) is made
    for n in range(4):
        model(**batch(n)).backward()
        optimizer.step()
        optimizer.zero_grad()
    made.close()
    assert said == [1, 2, 3]


def wrapped(model):
    """As DDP does."""
    wrappers.wrapped(lambda: None, types.SimpleNamespace(module=model), (), {})


def noted(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizers.note(optimizer)
    return optimizer


def test_a_plain_loop_is_followed_from_its_first_forward():
    model = Toy()
    wrapped(model)
    optimizer = noted(model)
    assert watcher.of(optimizer) == []
    model(**batch()).backward()
    optimizer.step()
    [found] = watcher.of(optimizer)
    assert (found.window, found.pages[0]["micro"]) == (1, 1)
    found.close()
    assert not model._forward_pre_hooks


def test_a_plain_loop_that_is_compiled_is_left_alone():
    """Hooks would have it compiled once more."""
    model = Toy()
    model._compiled_call_impl = model._call_impl
    wrapped(model)
    optimizer = noted(model)
    model(**batch()).backward()
    assert watcher.of(optimizer) == []


def test_a_model_that_does_not_see_is_left_alone():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    wrapped(model)
    optimizer = noted(model)
    model(torch.ones(1, 2)).sum().backward()
    assert watcher.of(optimizer) == []
    assert not model._forward_pre_hooks


class Writes(torch.nn.Linear):
    """A language model without a tower, as far as its class says."""

    answer = True

    def can_generate(self):
        return self.answer


class Masked(Writes):
    answer = False


class Raises(Writes):
    def can_generate(self):
        raise ValueError


@pytest.mark.parametrize(("made", "followed"), [(Writes, True), (Masked, False), (Raises, False)])
def test_a_causal_language_model_without_a_tower_is_followed(made, followed):
    model = torch.nn.Sequential(made(2, 2))
    wrapped(model)
    optimizer = noted(model)
    model(torch.ones(1, 2)).sum().backward()
    assert bool(watcher.of(optimizer)) is followed
    for each in watcher.of(optimizer):
        each.close()


def test_no_optimizer_is_looked_for_for_ever():
    model = Toy()
    wrapped(model)
    for n in range(wrappers.LOOKS + 1):
        model(**batch(n))
    assert not model._forward_pre_hooks


def test_a_step_that_a_scaler_leaves_out_is_counted():
    model = Toy()
    optimizer = noted(model)
    made = ledger.watch(model, optimizer)
    wrappers.scaler_step(lambda *_: None, None, (optimizer,), {})
    assert made.skipped == 1
    wrappers.scaler_step(lambda moved: moved.step(), None, (optimizer,), {})
    assert (made.skipped, made.pages[0]["skipped"]) == (0, 1)
    made.close()
