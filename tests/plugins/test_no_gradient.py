"""What a blank input leaves under FSDP2: gradients of zeros are taken back where that is sure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from vlmguard_torch import calls
from vlmguard_torch.blank import no_gradient
from vlmguard_torch.layout import cross_attention, fsdp2


@pytest.mark.parametrize(
    ("gradients", "moved", "kept"),
    [
        ([0.0, 0.0], [], False),
        ([0.0, 1e-30], [], True),
        ([0.0, float("nan")], [], True),
        ([0.0, 0.0], [True, False], False),
        ([0.0, 0.0], [False, False], True),  # closed: another rank's part may be none of zeros
        ([], [True], False),  # this rank holds nothing of them
        ([], [False], True),
    ],
)
def test_zeros_are_taken_back_but_behind_closed_gates(gradients, moved, kept):
    shards = [torch.zeros(2, requires_grad=True) for _ in gradients]
    for shard, value in zip(shards, gradients, strict=True):
        shard.grad = torch.full_like(shard, value)
    empty = torch.zeros(0, requires_grad=True)
    empty.grad = torch.zeros(0)
    no_gradient._take_back(
        [held(each) for each in (*shards, empty)], [torch.tensor(each) for each in moved]
    )
    assert [each.grad is not None for each in (*shards, empty)] == [kept] * (len(shards) + 1)


def held(shard, **more):
    """FSDP2's object for a parameter, as `fsdp2` reads it."""
    return SimpleNamespace(sharded_param=shard, unsharded_accumulated_grad=None, **more)


@pytest.mark.parametrize("place", ["summed", "whole"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_zeros_that_are_not_reduced_yet_are_taken_back(place, value):
    """Under accumulation, of reductions in the gradients' dtype and in another."""
    whole = torch.zeros(2, requires_grad=True)
    one = held(torch.zeros(1), _unsharded_param=whole)
    if place == "whole":
        whole.grad = torch.full_like(whole, value)
    else:
        one.unsharded_accumulated_grad = torch.full((2,), value)
    no_gradient._take_back([one, held(torch.zeros(1))], [])
    assert bool(fsdp2.gradients(one)) is bool(value)


def test_a_recomputation_knows_the_blank_by_its_memory():
    """Reentrant checkpointing detaches what a layer gets, and no attribute goes along."""
    now, thrown = [True], []
    throw = cross_attention.ThrowAway(lambda: now[0], lambda *given: thrown.append(given))
    layer, hidden, own = torch.nn.Identity(), torch.ones(2), torch.zeros(2)

    def output(states):
        throw.before(layer, (), {"cross_attention_states": states})
        return throw.after(layer, (hidden,), {}, own).value

    blank, image = torch.ones(3), torch.ones(3)
    assert torch.equal(output(blank), hidden)
    now[0] = False
    assert torch.equal(output(blank.detach()), hidden)
    assert output(image) is None
    assert len(thrown) == 2
    del blank
    now[0] = True
    output(image)
    assert len(throw._blanks) == 1, "what is gone is forgotten"


def test_the_end_of_a_recomputation_goes_on_to_torch():
    stop = type("_StopRecomputationError", (Exception,), {})
    broke = []

    def method(*given):
        raise given[0]

    hook = calls.Hook(method, broke.append)
    with pytest.raises(stop):
        hook(stop())
    assert hook(ValueError()) is None
    assert len(broke) == 1
