"""``log = true``: the ledger's numbers in a trainer's own logs, once a watched window."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vlmguard.core import runstate
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.ledger.report.scalars import KEPT
from vlmguard_transformers.watch import logs


def trainer_class():
    class Trainer:
        def __init__(self):
            self.logged = []

        def log(self, logs, start_time=None):
            self.logged.append(dict(logs))

    class Derived(Trainer):
        def log(self, logs, *more):
            super().log(logs, *more)

    return Derived


@pytest.fixture
def run():
    def run(kind=None, **settings):
        trainer, state = (kind or trainer_class())(), RunState(Settings(**settings))
        runstate.opened(state)
        runstate.bind(trainer, state)
        logs.watch(trainer, state)
        state.kept[KEPT] = {"vlmguard/reduce": 1.0}
        return trainer, state

    return run


def test_the_next_log_of_a_loss_has_them(run):
    trainer, state = run(log=True)
    trainer.log({"eval_loss": 2.0})
    trainer.log(logs={"loss": 1.0})
    trainer.log({"loss": 1.0}, 3)
    assert trainer.logged == [
        {"eval_loss": 2.0},
        {"loss": 1.0, "vlmguard/reduce": 1.0},
        {"loss": 1.0},
    ]
    for call in state.closers():
        call()
    state.kept[KEPT] = {"vlmguard/reduce": 1.0}
    trainer.log({"loss": 1.0})
    assert trainer.logged[-1] == {"loss": 1.0}, "it is over with the run"


def test_who_did_not_ask_has_the_class_as_it_was(run):
    kind = trainer_class()
    before = kind.log
    trainer, _ = run(kind)
    assert kind.log is before
    trainer.log({"loss": 1.0})
    assert trainer.logged == [{"loss": 1.0}]


def test_a_trainer_without_a_log_or_with_odd_ones_is_left_alone(run):
    logs.watch(SimpleNamespace(), RunState(Settings(log=True)))
    trainer, state = run(log=True)
    state.kept[KEPT] = None
    trainer.log({"loss": 1.0})
    assert trainer.logged == [{"loss": 1.0}], "a fault of ours is contained"
