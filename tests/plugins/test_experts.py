"""Which experts ZeRO-3 gathers one by one."""

from __future__ import annotations

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
