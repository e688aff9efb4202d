"""What the ledger keeps once it has ceased to watch."""

from __future__ import annotations

import gc
import tracemalloc

import torch

import vlmguard.ledger

MOST = 1024
"""Bytes a tensor; torch's own hook tables, 350 bytes that stay empty, not counted."""


class Net(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x) * 0.01
        return x.square().mean()


def kept(layers):
    """Bytes that Python has taken more after ten steps, of which the first three are watched."""
    model = Net(layers)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def steps(number):
        for _ in range(number):
            optimizer.zero_grad()
            model(torch.randn(2, 8)).backward()
            optimizer.step()
        gc.collect()

    steps(2)
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    made = vlmguard.ledger.watch(model, optimizer, setting="first")
    steps(10)
    found = tracemalloc.take_snapshot().compare_to(before, "filename")
    tracemalloc.stop()
    assert made.window >= 3, "it watched"
    return sum(each.size_diff for each in found if "torch/_tensor.py" not in str(each.traceback))


def test_a_parameter_has_no_table_of_hooks_behind_the_watched_windows():
    """An empty table costs each later backward 0.5 to 1 µs a tensor."""
    model = Net(2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    user = next(model.parameters())
    user.register_hook(lambda gradient: gradient)
    made = vlmguard.ledger.watch(model, optimizer, setting="first")
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(2, 8)).backward()
        if made.window < 3:
            assert all(p._backward_hooks for p in model.parameters())
        optimizer.step()
    assert made.window >= 3
    assert len(user._backward_hooks) == 1
    others = list(model.parameters())[1:]
    assert all(p._backward_hooks is None for p in others)
    assert all(p._post_accumulate_grad_hooks is None for p in others)


def test_it_keeps_less_than_a_kilobyte_a_tensor():
    kept(20)  # what is imported, once
    few, many = kept(50), kept(250)
    assert (many - few) / 400 < MOST
