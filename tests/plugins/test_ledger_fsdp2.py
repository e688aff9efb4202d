"""What FSDP2 keeps to itself may change: its own names are read where nothing of ours may fail."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import torch
from torch import nn

from vlmguard_torch.ledger.gradients.fsdp2_shards import Places


class Split(nn.Linear):
    def _get_fsdp_state(self):
        raise AttributeError("renamed")


def test_a_forward_goes_on_where_fsdp2_has_changed_and_no_copy_has_the_hook():
    model = Split(2, 2)
    places = Places(SimpleNamespace(model=model, parameters=tuple(model.parameters())))
    handles = places.open(lambda n, used: None)
    assert model(torch.ones(1, 2)).shape == (1, 2)
    copied = copy.deepcopy(model)
    assert "Places" not in repr([vars(hook) for hook in copied._forward_pre_hooks.values()])
    for handle in handles:
        handle.remove()
    assert not model._forward_pre_hooks
