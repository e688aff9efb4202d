"""What the ColossalAI adapter reads of older releases' objects, shaped as their sources say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vlmguard_colossalai import batches, layout
from vlmguard_colossalai.touched import Touched


class Hook:
    """`GeminiZeROHook`, as far as it counts: called with the operation's parameters."""

    def __init__(self):
        self.called = 0

    def pre_forward(self, params):
        self.called += 1

    def pre_backward(self, params):
        self.called += 10


class Old(nn.Module):
    """`GeminiDDP` before 0.4.3: one hook, no list."""

    def __init__(self, module, manager):
        super().__init__()
        self.module, self.gemini_manager = module, manager
        self.param_op_hook = Hook()
        self.chunk_manager = SimpleNamespace(tensor_chunk_map={})


class Wrapper(nn.Module):
    """`GeminiModel` of 0.3.0 and 0.3.1: nothing of Gemini's but what is inside."""

    def __init__(self, module):
        super().__init__()
        self.module = module


def manager(policy, **more):
    return SimpleNamespace(policy_name=policy, **more)


def test_the_engine_is_found_inside_the_oldest_releases_wrapper():
    old = Old(nn.Linear(2, 2), manager("auto"))
    assert layout.engine(Wrapper(old)) is layout.engine(old) is old


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (manager("cuda"), True),  # 0.3.0, 0.3.1
        (manager("static"), False),  # 0.3.2 – 0.3.7: no placement_policy to be read
        (manager("static", placement_policy=SimpleNamespace(max_prefetch=0)), False),
        (manager("static", placement_policy=SimpleNamespace(max_prefetch=2)), True),
        (manager("auto", placement_policy=SimpleNamespace()), True),
    ],
)
def test_whether_ranks_may_gather_in_another_order(made, expected):
    inner = nn.Sequential(nn.Embedding(3, 2))
    inner.get_input_embeddings = lambda: inner[0]
    assert layout.reorders(Old(inner, made), inner) is expected


def test_operations_are_seen_beside_the_only_hook():
    model = Old(nn.Linear(2, 2), manager("static"))
    own, touched = model.param_op_hook, Touched(model)
    weight = torch.nn.Parameter(torch.zeros(1))
    own.pre_forward([weight])
    assert own.called == 1
    assert touched.seen == {id(weight)}
    touched.seen = None
    own.pre_forward([weight])
    assert own.called == 2, "a fault of ours does not keep Gemini's hook from working"
    assert not touched.sound


class Loose(nn.Module):
    """As LLaVA's: further keywords under a name of its own."""

    def forward(self, input_ids, pixel_values=None, **lm_kwargs):
        return input_ids, pixel_values, lm_kwargs


def test_a_positional_batch_is_named_and_put_back():
    ids = torch.zeros(1, 2)
    batch, rebuild = batches.arguments(Loose(), (ids,), {"labels": ids})
    assert set(batch) == {"input_ids", "labels"}
    args, kwargs = rebuild({**batch, "pixel_values": ids})
    assert Loose()(*args, **kwargs) == (ids, ids, {"labels": ids})
    assert batches.arguments(Loose(), ([1], 2, 3), {}) is None


def test_what_counts_as_visual():
    floats, whole = torch.zeros(1, 2, 3), torch.zeros(1, 2, dtype=torch.long)
    batch = {"input_ids": whole, "patches": floats, "inputs_embeds": floats, "image_sizes": whole}
    assert batches.visual(batch) == ("patches", "image_sizes")
    assert batches.visual({"tiles": whole, "input_ids": whole}, known=("tiles",)) == ("tiles",)
