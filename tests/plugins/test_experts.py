"""Which experts ZeRO-3 gathers one by one, and which break its order of modules."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn

from vlmguard_torch.layout import experts


class Block(nn.Module):
    def __init__(self, number=4):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(2, 2) for _ in range(number))


class Fused(nn.Module):
    """As in transformers 5: one tensor for all."""

    def __init__(self):
        super().__init__()
        self.experts = nn.Module()
        self.experts.weight = nn.Parameter(torch.zeros(4, 2, 2))


def model(block):
    return nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(2, 2), block])})


def test_experts_of_their_own():
    assert experts.alone(model(Block())) == "layers.1.experts"
    assert experts.alone(nn.ModuleDict({"module": model(Block())})) == "layers.1.experts"


def test_those_that_are_gathered_together():
    assert experts.alone(model(Fused())) == ""
    assert experts.alone(model(Block(1))) == ""
    assert experts.alone(model(Block()), leaves=["Block"]) == ""
    leaf = Block()
    leaf._z3_leaf = True
    assert experts.alone(model(leaf)) == ""


class Looped(Fused):
    """Calls its activation once for each expert that was chosen."""

    def __init__(self, way=None):
        super().__init__()
        self.experts.act = nn.SiLU()
        if way:
            self.experts.config = SimpleNamespace(_experts_implementation=way)


def test_experts_that_call_a_module_as_often_as_rows_choose():
    for way in (None, "eager"):
        block = Looped(way)
        assert list(experts.looped(model(block))) == [block.experts]


def test_experts_that_zero3_has_partitioned():
    """ZeRO-3 leaves an empty tensor of one dimension, and its shape in ``ds_shape``."""
    block = Looped()
    block.experts.weight.ds_shape = block.experts.weight.shape
    block.experts.weight.data = torch.empty(0)
    assert list(experts.looped(model(block))) == [block.experts]


def test_experts_that_are_called_once():
    assert not list(experts.looped(model(Looped("grouped_mm"))))
    assert not list(experts.looped(model(Fused())))  # nothing inside
    assert not list(experts.looped(model(Block())))
    projecting = Looped()
    projecting.experts.gate = nn.Linear(2, 2)  # weights of its own: ZeRO-3 has to see it
    assert not list(experts.looped(model(projecting)))


def test_a_leaf_is_made_and_unmade():
    block = Looped()
    undo = experts.make_leaf(block.experts)
    assert block.experts._z3_leaf
    assert not list(experts.looped(model(block)))
    undo()
    assert not hasattr(block.experts, "_z3_leaf")
    undo()
