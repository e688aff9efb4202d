"""Sketches are linear, follow shards, and cost no copy."""

from __future__ import annotations

import itertools

import pytest
import torch

from vlmguard_torch.ledger.gradients.sketch import BLOCK, norm, readable, sketch


def test_a_sketch_is_the_sum_of_its_shards():
    whole = torch.randn(1300, 1001)
    ends = [0, 7, 1_000_003, BLOCK, BLOCK + 33, whole.numel()]
    flat = whole.reshape(-1)
    parts = sum(sketch(flat[a:b], a) for a, b in itertools.pairwise(ends))
    assert torch.allclose(parts, sketch(whole), rtol=1e-5, atol=1e-3)


def test_a_sketch_is_linear_and_about_as_long_as_its_tensor():
    a, b = torch.randn(500, 40), torch.randn(500, 40)
    assert torch.allclose(sketch(a + 2 * b), sketch(a) + 2 * sketch(b), rtol=1e-4, atol=1e-3)
    assert 0.4 < float(sketch(a).norm() / a.norm()) < 2.5


@pytest.mark.parametrize("shape", [(1 << 11, 1 << 10), (3, 2, 1 << 19), (5, 7)])
def test_a_transposed_tensor_is_read_in_its_own_order(shape):
    tensor = torch.randn(*shape)
    there = tensor.transpose(0, 1).contiguous().transpose(0, 1)
    assert not there.is_contiguous()
    assert torch.allclose(sketch(there), sketch(tensor), rtol=1e-4, atol=1e-2)


def test_blocks_differ_in_their_signs():
    """The same entries at another place are another tensor."""
    tensor = torch.randn(BLOCK)
    twice = [sketch(tensor, block * BLOCK) for block in range(8)]
    assert len({float(each[0]) for each in twice}) == 2


def test_no_random_number_is_drawn_and_nothing_is_changed():
    tensor = torch.randn(100)
    before, state = tensor.clone(), torch.get_rng_state()
    sketch(tensor)
    assert torch.equal(tensor, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_what_cannot_be_read():
    assert readable(torch.ones(2))
    assert not readable(None)
    assert not readable(torch.ones(2).to_sparse())
    assert not readable(torch.ones(2, dtype=torch.complex64))
    assert not readable(torch.ones(2, device="meta"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("entries", [1, 1000, BLOCK + 33])
def test_a_norm_is_that_of_torch(dtype, entries):
    tensor = torch.randn(entries, generator=torch.Generator().manual_seed(2)).to(dtype)
    assert torch.allclose(norm(tensor).double(), tensor.double().norm(), rtol=1e-4)
