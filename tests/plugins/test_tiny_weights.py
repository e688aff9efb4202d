"""The weights of a rehearsal's tiny model, and what of it trains."""

from __future__ import annotations

import torch

from vlmguard_transformers.rehearsal import in_rank, shrunk


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = torch.nn.Linear(3, 3)
        self.projector = torch.nn.Linear(3, 3)
        self.gate = torch.nn.Parameter(torch.zeros(1))


def test_what_begins_at_zero_lets_a_gradient_through():
    """As Gemma 3's projection, which a checkpoint holds and a new model has at zero."""
    model = Model()
    for weight in (model.projector.weight, model.projector.bias):
        torch.nn.init.zeros_(weight)
    shrunk._audible(torch, model)
    model.projector(model.visual(torch.ones(1, 3))).square().sum().backward()
    assert model.visual.weight.grad.norm() > 0
    assert model.gate.item() == 0.5
    assert not model.projector.bias.any()


def test_a_tower_of_which_nothing_trains_is_there_all_the_same():
    model = Model()
    model.visual.requires_grad_(False)
    paths = {"vision": ("visual",), "aligner": ("projector",)}
    found = in_rank._trainable(model, paths)
    assert found["vision"] == []
    assert found["aligner"] == ["projector.weight", "projector.bias"]
