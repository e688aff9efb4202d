"""The dry step on plain torch modules: what it reports, and that it leaves no trace."""

from __future__ import annotations

import copy
import random
from types import SimpleNamespace

import numpy
import pytest
import torch
from torch import nn

from vlmguard.core import settings
from vlmguard.core.runstate import RunState
from vlmguard_torch.watch import dry_run
from vlmguard_transformers.model_reading import Reading
from vlmguard_transformers.profile import Profile
from vlmguard_transformers.watch import dry_run as of_trainers

PATHS = {"vision": ("visual",), "llm": ("model",)}


class Towers(nn.Module):
    """Dropout, a buffer that forward changes, one that it replaces, a cache that it leaves."""

    def __init__(self):
        super().__init__()
        self.visual = nn.Linear(4, 4)
        self.model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.register_buffer("table", torch.zeros(1))
        self.eval()
        self.model[0].train()

    def forward(self, text, image=None, fail=False):
        self.table = self.table + 1
        self.cache = text
        random.random()
        numpy.random.rand()
        out = self.model(text)
        if image is not None:
            out = out + self.visual(image)
        if fail:
            raise OSError("a broken batch")
        return {"loss": out.pow(2).mean()}


@pytest.fixture
def trained():
    model = Towers()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(3, 4), torch.randn(3, 4))["loss"].backward()
        optimizer.step()
    return model, optimizer


def trace(model, optimizer):
    """Everything that a dry step could leave a trace in."""
    return copy.deepcopy(
        {
            "weights": dict(model.named_parameters()),
            "buffers": dict(model.named_buffers()),
            "gradients": {n: p.grad for n, p in model.named_parameters()},
            "optimizer": optimizer.state_dict()["state"],
            "modes": [m.training for m in model.modules()],
            "random": (random.getstate(), torch.get_rng_state(), numpy.random.get_state()[1]),
            "attributes": [sorted(vars(m)) for m in model.modules()],
            "cache": model.cache,
        }
    )


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return bool(numpy.all(one == other))


def test_the_comparison_sees_a_changed_bit(trained):
    before = trace(*trained)
    next(trained[0].parameters()).data[0, 0] += 1
    assert not equal(before, trace(*trained))


@pytest.mark.parametrize("gradients", [True, False])
def test_it_reports_each_tower_and_leaves_no_trace(trained, gradients):
    model, optimizer = trained
    if not gradients:
        optimizer.zero_grad(set_to_none=True)
    held = [p.grad for p in model.parameters()]
    before = trace(model, optimizer)
    towers = dry_run.run(model, {"text": torch.ones(3, 4)}, PATHS)
    assert equal(before, trace(model, optimizer))
    assert all(p.grad is g for p, g in zip(model.parameters(), held, strict=True))
    assert model.table is model._buffers["table"]
    vision, llm = towers
    assert (vision.kind, vision.trainable, vision.reached, vision.norm) == ("vision", 2, 0, 0.0)
    assert vision.without == ("visual.weight", "visual.bias")
    assert (llm.kind, llm.trainable, llm.reached) == ("llm", 4, 4)
    assert llm.norm > 0


def test_norm_is_that_of_a_real_backward(trained):
    model, optimizer = trained
    batch = {"text": torch.ones(3, 4), "image": torch.ones(3, 4)}
    torch.manual_seed(0)
    towers = dry_run.run(model, batch, PATHS)
    optimizer.zero_grad()
    torch.manual_seed(0)
    model.train()(**batch)["loss"].backward()
    grads = [p.grad.flatten() for n, p in model.named_parameters() if n.startswith("visual")]
    assert towers[0].norm == pytest.approx(float(torch.cat(grads).norm()))


def test_a_failing_forward_is_named_and_leaves_no_trace(trained):
    before = trace(*trained)
    with pytest.raises(dry_run.CannotTry, match="OSError: a broken batch"):
        dry_run.run(trained[0], {"text": torch.ones(3, 4), "fail": True}, PATHS)
    assert equal(before, trace(*trained))


def lazy(model):
    class LazyTensor(nn.Parameter):
        pass

    model.visual.weight = LazyTensor(torch.ones(4, 4))


def hooked(model):
    model.visual.weight.register_post_accumulate_grad_hook(lambda p: None)


def partitioned(model):
    model.visual.weight.ds_id = 0


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lazy, "lazily initialised"),
        (lambda model: model.to("meta"), "meta device"),
        (hooked, "hooks act on gradients"),
        (partitioned, "partitioned"),
        (lambda model: model.requires_grad_(False), "nothing is trainable"),
    ],
)
def test_what_cannot_be_tried_says_why(spoil, why):
    model = Towers()
    spoil(model)
    with pytest.raises(dry_run.CannotTry, match=why):
        dry_run.run(model, {"text": torch.ones(3, 4)}, PATHS)


def test_a_batch_that_is_no_mapping_and_a_model_without_a_loss():
    with pytest.raises(dry_run.CannotTry, match="must be a mapping, not list"):
        dry_run.run(Towers(), [1], PATHS)
    with pytest.raises(dry_run.CannotTry, match="no loss"):
        dry_run.run(Towers(), {"text": torch.ones(3, 4)}, PATHS, lambda model, batch: None)


def test_what_is_said(trained, capsys):
    towers = dry_run.run(trained[0], {"text": torch.ones(3, 4)}, PATHS)
    facts = dry_run.say(towers, ("bias",))
    assert facts.unreached == {"vision": ("visual.weight", "visual.bias")}
    assert facts.trainable == {"vision": 2, "llm": 4}
    assert facts.by_design == ("visual.bias",)
    assert (facts.wiring, facts.tried) == ({"vision": "idle"}, True)
    said = capsys.readouterr().err
    assert "dry step [rank 0]: vision: 0 of 2 trainable parameters got a gradient, norm 0" in said


class Large(nn.Module):
    """More parameters than a CPU runs backwards in seconds, in the memory of one."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1).expand(size))

    def forward(self, **batch):
        raise AssertionError("this was to be left alone")


@pytest.mark.parametrize(
    ("size", "device", "said"),
    [
        (7_000_000_000, "cuda", "the model (7.0 billion parameters) is still on the CPU"),
        (7_000_000_000, "cpu", ""),  # it trains there
        (400_000_000, "cuda", ""),
    ],
)
def test_a_large_model_that_deepspeed_has_yet_to_move_is_not_tried(size, device, said):
    trainer = SimpleNamespace(
        model=Large(size), args=SimpleNamespace(device=torch.device(device))
    )
    assert of_trainers._too_large(trainer) == said


def test_a_model_on_its_device_is_tried_however_large():
    model = nn.Linear(1, 1, device="meta").to_empty(device="meta")
    model.weight = nn.Parameter(torch.zeros(1, device="meta").expand(7_000_000_000))
    trainer = SimpleNamespace(model=model, args=SimpleNamespace(device=torch.device("cuda")))
    assert of_trainers._too_large(trainer) == ""


def test_what_is_not_tried_is_said_and_no_row_is_taken(monkeypatch, capsys):
    monkeypatch.setenv("VLMGUARD_DRY_STEP", "1")
    settings.renew()
    trainer = SimpleNamespace(
        model=Large(600_000_000), args=SimpleNamespace(device=torch.device("cuda"))
    )
    of_trainers.rehearse(Reading(trainer, Profile()), RunState(settings.get()))
    assert "not made: the model (0.6 billion parameters) is still on" in capsys.readouterr().err


def test_no_row_is_taken_from_an_iterator(monkeypatch, capsys):
    monkeypatch.setenv("VLMGUARD_DRY_STEP", "1")
    settings.renew()
    prompts = iter([1, 2])
    args = SimpleNamespace(
        device=torch.device("cpu"), per_device_train_batch_size=1, process_index=0
    )
    trainer = SimpleNamespace(
        model=Large(1), args=args, train_dataset=[0, 0], data_collator=lambda _: next(prompts)
    )
    of_trainers.rehearse(Reading(trainer, Profile()), RunState(settings.get()))
    assert "not made: the data set or its collator holds an iterator" in capsys.readouterr().err
    assert next(prompts) == 1
