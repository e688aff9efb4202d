"""What a blank input leaves under FSDP2: gradients of zeros are taken back where that is sure."""

from __future__ import annotations

import pytest
import torch

from vlmguard_torch.blank import no_gradient


@pytest.mark.parametrize(
    ("gradients", "gates", "kept"),
    [
        ([0.0, 0.0], [], False),
        ([0.0, 1e-30], [], True),
        ([0.0, float("nan")], [], True),
        ([0.0, 0.0], [0.5, -0.1], False),
        ([0.0, 0.0], [0.5, 0.0], True),  # closed: another rank's part may be none of zeros
        ([], [0.5], False),  # this rank holds nothing of them
        ([], [0.0], True),
    ],
)
def test_zeros_are_taken_back_but_behind_a_closed_gate(gradients, gates, kept):
    shards = [torch.zeros(2, requires_grad=True) for _ in gradients]
    for shard, value in zip(shards, gradients, strict=True):
        shard.grad = torch.full_like(shard, value)
    empty = torch.zeros(0, requires_grad=True)
    empty.grad = torch.zeros(0)
    no_gradient._take_back([*shards, empty], [torch.tensor([gate]) for gate in gates])
    assert [each.grad is not None for each in (*shards, empty)] == [kept] * (len(shards) + 1)


def test_gates_are_read_as_they_are_in_the_forward():
    layer = torch.nn.Linear(2, 2)
    assert no_gradient.gates(layer) == []
    layer.gate = torch.nn.Parameter(torch.tensor([3.0]))
    layer.other = torch.nn.Parameter(torch.tensor(4.0))
    found = no_gradient.gates(layer)
    with torch.no_grad():
        layer.gate.zero_()
    assert torch.cat(found).tolist() == [3.0, 4.0]
