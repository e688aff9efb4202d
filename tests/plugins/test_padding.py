"""A trainer's blank input: asked of a small copy for every class, made as that showed it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.plugins.test_blank_trial import Behind, Leaking, Rejecting, Seeing, full
from vlmguard.core import runstate
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard_torch.transaction import Transaction
from vlmguard_transformers import profiles
from vlmguard_transformers.model import observation, padding
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.watch import first_steps

KINDS = ("image",)


class Trainer(SimpleNamespace):
    pass


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def opened(kind):
    trainer = Trainer(model=full(kind), args=SimpleNamespace(world_size=2))
    state = RunState(Settings())
    runstate.bind(trainer, state)
    state.kept["blank kinds"] = KINDS
    return trainer, state


def put_in(trainer):
    read = Reading(trainer, profiles.PLAIN)
    vars(read)["strategy"] = "zero2"
    with Transaction() as transaction:
        padding.install(read, transaction)


def test_what_a_trial_refuted_is_no_remedy():
    trainer, _ = opened(Leaking)
    why = padding.obstacle(trainer, KINDS)
    assert why.startswith("tried on a small copy of Leaking: it changes the loss of a text row")


def test_what_was_proven_is_put_in_as_it_was_proven(capsys):
    trainer, state = opened(Behind)
    assert padding.obstacle(trainer, KINDS) == ""
    put_in(trainer)
    model = trainer.model.train()
    model(torch.arange(4)[None]).logits.sum().backward()
    assert model.multi_modal_projector.weight.grad is not None
    assert first_steps.padded(state) == 1
    assert "could not be tried" not in capsys.readouterr().err


def test_what_could_not_be_tried_is_put_in_as_the_class_names_it_and_said(capsys):
    trainer, _ = opened(Rejecting)
    assert padding.obstacle(trainer, KINDS) == ""
    put_in(trainer)
    said = capsys.readouterr().err
    assert said.count("the blank input could not be tried on a small copy of the model (image") == 1
    assert "no image is good enough" in said


def test_a_config_that_cannot_be_shrunk_stops_nothing(capsys):
    trainer, _ = opened(Seeing)
    shrinkable = trainer.model.config

    class Stubborn(type(shrinkable)):
        def __deepcopy__(self, memo):
            raise TypeError("this config cannot be copied")

    trainer.model.config = Stubborn(**vars(shrinkable))
    assert padding.obstacle(trainer, KINDS) == ""
    put_in(trainer)
    assert "this config cannot be copied" in capsys.readouterr().err


def test_a_run_is_observed_once_with_the_kinds_that_its_rows_have(monkeypatch):
    trainer, _ = opened(Seeing)
    asked = []
    own = observation._try_blanks

    def heard(*told):
        asked.append(told[1])
        return own(*told)

    monkeypatch.setattr(observation, "_try_blanks", heard)
    monkeypatch.setattr(observation, "_observe", lambda *_: pytest.fail("observed twice"))
    facts = observation.with_blanks(trainer, KINDS)
    assert [each.kind for each in facts.blanks] == ["image"]
    assert observation.copy_of(trainer) is facts
    padding.obstacle(trainer, KINDS)
    assert asked == [("image",)]
