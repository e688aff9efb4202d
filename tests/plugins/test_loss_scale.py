"""A model's loss that ignores the number of tokens, and the Trainer that leaves it the division."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from tests.plugins.toys import Toy, config
from vlmguard.core.facts import Tower
from vlmguard_torch.observe import observer
from vlmguard_torch.transaction import Transaction
from vlmguard_transformers.model import loss as loss_scale

SEES, READS = (Tower("vision", total=2),), (Tower("llm", total=2),)


class Careless(Toy):
    def forward(self, input_ids, pixel_values=None, labels=None, **kwargs):
        return super().forward(input_ids, None, pixel_values, labels)


class Careful(Toy):
    def forward(self, input_ids, pixel_values=None, labels=None, **kwargs):
        found = super().forward(input_ids, None, pixel_values, labels)
        if "num_items_in_batch" in kwargs:
            found.loss = found.loss * len(input_ids[0]) / kwargs["num_items_in_batch"]
        return found


class Halfway(Careful):
    """Careful with text alone."""

    def forward(self, input_ids, pixel_values=None, labels=None, **kwargs):
        told = {} if pixel_values is not None else kwargs
        return super().forward(input_ids, pixel_values, labels, **told)


def full(kind):
    with torch.device("meta"):
        return kind(config())


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(__version__="5.23.0"))


@pytest.mark.parametrize(
    ("kind", "counts"), [(Careless, False), (Careful, True), (Halfway, None), (Toy, None)]
)
def test_whether_the_loss_is_divided_is_observed(kind, counts):
    facts = observer.observe(full(kind))
    assert facts
    assert facts.counts_items is counts
    assert observer.observe(full(kind)).counts_items is counts  # from the file


class Trainer:
    """What a plain Trainer has, as far as it is read."""

    compute_loss_func = label_smoother = None
    model_accepts_loss_kwargs = True

    def __init__(self, ranks=2, micros=1, kind=Careless, **arguments):
        self.model = full(kind)
        told = {"average_tokens_across_devices": True, "n_gpu": 1, **arguments}
        self.args = SimpleNamespace(gradient_accumulation_steps=micros, **told)
        self.accelerator = SimpleNamespace(num_processes=ranks)

    def compute_loss(self, model, inputs):
        return model(**inputs).loss


Trainer.__module__ = "transformers.trainer"


class OwnStep(Trainer):
    def training_step(self):
        """Nothing of the loss."""


class OwnLoss(Trainer):
    def compute_loss(self, model, inputs):
        return super().compute_loss(model, inputs) / 2


@pytest.mark.parametrize(
    ("trainer", "times"),
    [
        (lambda: Trainer(), 2),
        (lambda: OwnStep(3, 4), 12),
        (lambda: Trainer(1, 4), 4),
        (lambda: Trainer(2, 4, average_tokens_across_devices=False), 4),
        (lambda: Trainer(1, 1), 1),
        (lambda: Trainer(2, 1, n_gpu=2), 1),
        (lambda: Trainer(kind=Careful), 1),
        (lambda: Trainer(kind=Halfway), 1),
        (lambda: OwnLoss(), 1),
    ],
)
def test_how_many_times_too_large(trainer, times):
    assert loss_scale.times(trainer(), "train", SEES) == times


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_accepts_loss_kwargs", False),
        ("compute_loss_func", print),
        ("label_smoother", print),
        ("compute_loss", print),
        ("loss_is_scaled_for_ga", True),
    ],
)
def test_a_trainer_that_does_otherwise(name, value):
    trainer = Trainer()
    setattr(trainer, name, value)
    assert loss_scale.times(trainer, "train", SEES) == 1


def test_the_model_is_not_observed_for_nothing(monkeypatch):
    monkeypatch.setattr(loss_scale.observation, "copy_of", lambda _: pytest.fail("observed"))
    assert loss_scale.times(Trainer(), "eval", SEES) == 1
    assert loss_scale.times(Trainer(), "train", READS) == 1
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "4.48.3")
    assert loss_scale.times(Trainer(), "train", SEES) == 1


def test_no_observation_no_verdict(monkeypatch):
    monkeypatch.setenv("VLMGUARD_OBSERVE", "off")
    assert loss_scale.times(Trainer(), "train", SEES) == 1


def test_it_is_mended_and_taken_back():
    trainer = Trainer()
    with Transaction() as transaction:
        loss_scale.mend(trainer, transaction)
    assert list(transaction.changes) == ["loss"]
    assert loss_scale.times(trainer, "train", SEES) == 1
    trainer.model_accepts_loss_kwargs = True
    undone = Transaction()
    loss_scale.mend(trainer, undone)
    undone.__exit__(ValueError, ValueError("later"), None)
    assert trainer.model_accepts_loss_kwargs is True
