"""Ranks under Gemini whose batches run the towers differently often, where no blank can be made."""

from __future__ import annotations

import pytest
import torch

from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.runtime import exchange
from vlmguard_colossalai.together import _KEPT, Together


@pytest.fixture
def store(monkeypatch):
    store = torch.distributed.HashStore()
    monkeypatch.setattr(exchange, "_store", lambda: store)
    return store


def ranks():
    return [Together(RunState(Settings(), number=7)) for _ in range(2)]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (("image", "text"), ("text",), "runs the towers not at all, another rank's once"),
        (("text",), ("audio", "text"), "runs the towers once, another rank's not at all"),
        (("image", "text", "video"), ("image",), "runs the towers once, another rank's twice"),
        (("image",), ("video",), ""),
        (("text",), ("text",), ""),
        (("image", "video"), ("image", "text", "video"), ""),
    ],
)
def test_the_later_one_sees_it(store, one, other, said):
    first, second = ranks()
    for _ in range(3):
        assert first.compare(["image"]) is None
        assert second.compare(["image"]) is None
    assert first.compare(one) is None
    found = second.compare(other)
    assert bool(found) is bool(said)
    if found:
        assert said in found.why
        assert found.level == "error"


def test_marks_are_cleared_up_and_no_store_is_no_answer(store, monkeypatch):
    first, _ = ranks()
    for _ in range(20):
        first.compare(["text"])
    assert store.num_keys() == _KEPT
    monkeypatch.setattr(exchange, "_store", lambda: None)
    assert first.compare(["image"]) is None
