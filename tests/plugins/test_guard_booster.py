"""What `guard_booster` is told: refused at that call where it cannot be, kept where it can."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vlmguard.core.errors import SettingsError
from vlmguard_colossalai import dummy, explicit, guard_booster, trial
from vlmguard_colossalai.touched import Touched

VOCABULARY, IMAGE = 40, 39


class Booster:
    plugin = None

    def boost(self):
        pass


class Processor:
    """Two tokens an image."""

    image_token_id = IMAGE
    chat_template = None

    def __init__(self, **more):
        self.more = more

    def __call__(self, text, images=None, **_):
        count = 2 if images else 0
        ids = torch.tensor([[n % 30 for n in range(8)] + [IMAGE] * count for _ in text])
        out = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if images:
            out["pixel_values"] = torch.full((len(images), 2, 4), -1.0)
        return out | {name: torch.zeros_like(ids) for name in self.more}


class Refuses(Processor):
    def __call__(self, **_):
        raise ValueError("this processor refuses")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "takes a colossalai Booster, not None"),
        (nn.Linear(1, 1), "not a Linear"),
    ],
)
def test_what_is_no_booster(given, said):
    with pytest.raises(SettingsError, match=said):
        guard_booster(given)


def test_one_that_has_boosted():
    booster = Booster()
    explicit.boosted(booster)
    with pytest.raises(SettingsError, match="comes too late"):
        guard_booster(booster, freeze="vision")


def test_a_processor_that_makes_no_image():
    with pytest.raises(SettingsError, match="ValueError: this processor refuses"):
        guard_booster(Booster(), processor=Refuses())


def test_a_second_call_adds_to_the_first():
    booster, processor = Booster(), Processor()
    assert guard_booster(booster, processor=processor) is booster
    guard_booster(booster, freeze=["vision"])
    told = explicit.of(booster)
    assert (told.processor, told.freeze) == (processor, ("vision",))
    assert told.block.ids[-2:] == [IMAGE, IMAGE]
    guard_booster(booster, freeze=["none"])
    assert explicit.of(booster).freeze == ()
    assert explicit.of(booster).processor is processor


def test_off_says_nothing(monkeypatch):
    monkeypatch.setenv("VLMGUARD", "off")
    assert guard_booster(None) is None


class Causal(nn.Module):
    """No token sees one behind it; with ``sees``, all see the image."""

    def __init__(self, sees=False, mean=False):
        super().__init__()
        self.words, self.tower = nn.Embedding(VOCABULARY, 4), nn.Linear(4, 4)
        self.head, self.drop = nn.Linear(4, VOCABULARY), nn.Dropout(0.5)
        self.sees, self.mean = sees, mean

    def forward(self, input_ids, attention_mask=None, labels=None, pixel_values=None):
        hidden = self.words(input_ids)
        if pixel_values is not None:
            seen = self.tower(pixel_values)
            place = (input_ids == IMAGE).unsqueeze(-1).expand_as(hidden)
            hidden = hidden.masked_scatter(place, seen.flatten(0, 1))
            hidden = hidden + seen.mean() if self.sees else hidden
        logits = self.head(self.drop(hidden.cumsum(1)))
        loss = nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum"
        )
        return {"loss": loss / (labels.numel() if self.mean else 1)}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Causal(), ""),
        (Causal(sees=True), "the text sees the image"),
        (Causal(mean=True), "changes its loss from"),
        (nn.Embedding(2, 2), "tried on the plain model: TypeError"),
    ],
)
def test_an_image_behind_the_text_is_tried_on_the_plain_model(model, said):
    processor = Processor()
    block = dummy.build(processor)
    before = torch.get_rng_state()
    why = trial.why_not(model, processor, block, every_row=False)
    assert said in why
    assert bool(said) == bool(why)
    assert torch.equal(before, torch.get_rng_state())
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_a_model_that_runs_its_tower_for_text_needs_no_image():
    class Own(Causal):
        def forward(self, input_ids, pixel_values=None, **more):
            if pixel_values is None:
                self.tower(torch.zeros(1, 4))
            return super().forward(input_ids, pixel_values=pixel_values, **more)

    model, processor = Own(), Processor()
    why = trial.why_not(model, processor, dummy.build(processor), False, towers=["tower"])
    assert why == "text alone runs tower: the model has a dummy of its own"
    assert not model.tower._forward_pre_hooks


def test_entries_of_unknown_meaning_are_not_filled_in():
    block = dummy.build(Processor())
    ids = torch.ones(2, 5, dtype=torch.long)
    batch = {"input_ids": ids, "labels": ids, "token_type_ids": ids}
    with pytest.raises(dummy.CannotComplete, match="token_type_ids goes with the tokens"):
        dummy.complete(block, batch)
    typed = dummy.build(Processor(token_type_ids=0))
    assert dummy.complete(typed, batch)["token_type_ids"][0].tolist() == [1] * 5 + [0] * 10


class Engine:
    """Gemini as far as it tells of operations, in releases that take one hook."""

    def __init__(self):
        hook = type("Hook", (), {"pre_forward": None, "pre_backward": None})()
        hook.pre_forward = hook.pre_backward = lambda params: None
        self.param_op_hook = hook


def test_what_several_forwards_touched_before_one_backward():
    engine, weight, other = Engine(), nn.Linear(1, 1).weight, nn.Linear(1, 1).weight
    touched, hook = Touched(engine), engine.param_op_hook
    touched.begins(accumulates=False)
    hook.pre_forward([weight])
    touched.begins(accumulates=False)
    hook.pre_forward([other])
    assert touched.seen == {id(weight), id(other)}
    hook.pre_backward([weight])
    touched.begins(accumulates=True)
    assert touched.seen == {id(weight), id(other)}, "a window of several backwards"
    hook.pre_backward([weight])
    touched.begins(accumulates=False)
    assert touched.seen == set()
    touched.paused = True
    hook.pre_forward([weight])
    assert touched.seen == set(), "an evaluation"
