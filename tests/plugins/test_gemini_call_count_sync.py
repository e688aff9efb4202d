"""Ranks under Gemini whose batches run the towers differently often, where no blank can be made."""

from __future__ import annotations

import functools

import pytest
import torch

from tests.plugins.toys import Config
from vlmguard.core.runstate import RunState
from vlmguard.core.settings import Settings
from vlmguard.runtime import exchange
from vlmguard.runtime.ballot import Decision
from vlmguard_colossalai import inside
from vlmguard_colossalai.call_count_sync import _KEPT, CallCountSync


class Around(torch.nn.Module):
    """As a class with a head is around the model itself."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def get_input_embeddings(self):
        return self.model.get_input_embeddings()


@pytest.fixture
def store(monkeypatch):
    store = torch.distributed.HashStore()
    monkeypatch.setattr(exchange, "_store", lambda: store)
    return store


def ranks():
    return [CallCountSync(RunState(Settings(), number=7)) for _ in range(2)]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (("image", "text"), ("text",), "runs the towers not at all in a forward, another one once"),
        (("text",), ("audio", "text"), "runs the towers once in a forward, another one not at all"),
        (("image", "text", "video"), ("image",),
         "runs the towers once in a forward, another one twice"),
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


def test_where_each_forward_runs_one_blank_only_a_second_input_parts_them(store):
    first, second = (CallCountSync(RunState(Settings(), number=7), least=1) for _ in range(2))
    for one, other in ((["text"], ["image"]), (["video"], ["text"])):
        assert first.compare(one) is second.compare(other) is None
    assert first.compare(["text"]) is None
    found = second.compare(["image", "video"])
    assert "runs the towers twice in a forward, another one once" in found.why
    assert "a reentrant tower cannot run twice" in found.why
    assert "use_reentrant=False" in found.advise()


class Seeing(torch.nn.Module):
    """Images and videos go through one tower."""

    def __init__(self, reentrant):
        super().__init__()
        self.config = Config(vision_config=Config(image_size=4, patch_size=2), model_type="x")
        self.visual, self.language_model = torch.nn.Linear(2, 2), torch.nn.Embedding(9, 2)
        if reentrant is not None:
            self.visual.gradient_checkpointing = True
            run = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=reentrant)
            self.visual._gradient_checkpointing_func = run

    def get_input_embeddings(self):
        return self.language_model

    def get_image_features(self, pixel_values):
        return self.visual(pixel_values)

    def get_video_features(self, pixel_values):
        return self.visual(pixel_values)

    def forward(self, input_ids, pixel_values=None):
        return self.get_input_embeddings()(input_ids)


@pytest.mark.parametrize("reentrant", [None, False, True])
@pytest.mark.parametrize("wrap", [lambda model: model, Around])
def test_kinds_that_a_checkpointed_tower_can_run_in_one_forward(reentrant, wrap):
    model = wrap(Seeing(reentrant))
    assert inside.kinds(model) == (("image",) if reentrant else ("image", "video"))
    assert inside.several(model) is bool(reentrant)


def test_marks_are_cleared_up_and_no_store_is_no_answer(store, monkeypatch):
    first, _ = ranks()
    for _ in range(20):
        first.compare(["text"])
    assert store.num_keys() == _KEPT
    monkeypatch.setattr(exchange, "_store", lambda: None)
    assert first.compare(["image"]) is None


def test_marks_of_an_earlier_membership_stop_nobody(store):
    first, second = ranks()
    first.compare(["image"])  # then a node is replaced, and the ranks begin again
    again = ranks()
    for each in again:
        each.state.kept["decision"] = Decision(True, 2, (), "another")
    assert [each.compare(["text"]) for each in again] == [None, None]
    second.state.kept["decision"] = Decision(False, 3)  # counted beyond the number of ranks
    assert second.compare(["text"]) is None
