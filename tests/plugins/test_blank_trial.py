"""A blank input is tried on a tiny copy: proven, refuted or not tried; then made as proven."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.plugins.toys import Config
from vlmguard_torch.blank import blank_input, neutral
from vlmguard_torch.observe import observer
from vlmguard_torch.observe.observed import Tried, from_data, to_data

SIDE, WIDTH, IMAGE = 8, 16, 900


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Tower(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.patch, self.linear = config.patch_size, nn.Linear(3, config.hidden_size)

    def forward(self, pixel_values):
        patches = nn.functional.avg_pool2d(pixel_values, self.patch).flatten(2).transpose(1, 2)
        return self.linear(patches)


class Language(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layer = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, inputs_embeds):
        hidden = self.layer(inputs_embeds)
        return hidden + hidden.mean(1, keepdim=True)


class Seeing(nn.Module):
    """As LLaVA: its method for an image's features runs all that its forward runs."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.vision_tower = Tower(config.vision_config)
        self.multi_modal_projector = nn.Linear(config.vision_config.hidden_size, config.hidden_size)
        self.language_model = Language(config)
        self.head = nn.Linear(config.hidden_size, config.vocab_size)

    def get_input_embeddings(self):
        return self.language_model.words

    def get_image_features(self, pixel_values):
        return self.multi_modal_projector(self.vision_tower(pixel_values))

    def seen(self, pixel_values):
        return self.get_image_features(pixel_values)

    def scaled(self, hidden):
        return hidden

    def forward(self, input_ids, attention_mask=None, pixel_values=None, labels=None):
        hidden = self.get_input_embeddings()(input_ids)
        if pixel_values is not None:
            seen = self.seen(pixel_values).flatten(0, 1)
            at = input_ids == self.config.image_token_id
            if int(at.sum()) != len(seen):
                raise ValueError(f"tokens: {int(at.sum())}, features: {len(seen)}")
            hidden = hidden.masked_scatter(at[..., None], seen)
        logits = self.head(self.scaled(self.language_model(inputs_embeds=hidden)))
        loss = None if labels is None else nn.functional.cross_entropy(logits[0], labels[0])
        return SimpleNamespace(loss=loss, logits=logits)


class Behind(Seeing):
    """As Llama4: its forward calls the projector, the method does not."""

    def get_image_features(self, pixel_values):
        return self.vision_tower(pixel_values)

    def seen(self, pixel_values):
        return self.multi_modal_projector(self.get_image_features(pixel_values))


class Again(Seeing):
    """As Granite Speech: embeds its tokens a second time where there is something to see."""

    def seen(self, pixel_values):
        self.get_input_embeddings()(torch.zeros(1, 1, dtype=torch.long))
        return self.get_image_features(pixel_values)


class Twice(Seeing):
    """Its forward runs a module that wants more than the features."""

    class Mixed(nn.Linear):
        def forward(self, features, queries):
            return super().forward(features + queries)

    def __init__(self, config):
        super().__init__(config)
        self.mixing = Twice.Mixed(config.hidden_size, config.hidden_size)

    def seen(self, pixel_values):
        features = self.get_image_features(pixel_values)
        return self.mixing(features, features.mean())


class Unused(Seeing):
    """Its method gives more features than its forward takes."""

    def __init__(self, config):
        super().__init__(config)
        self.second_projector = nn.Linear(config.hidden_size, config.hidden_size)

    def get_image_features(self, pixel_values):
        features = super().get_image_features(pixel_values)
        return [features, self.second_projector(features)]

    def seen(self, pixel_values):
        return self.get_image_features(pixel_values)[0]


class Leaking(Seeing):
    """What its tower has seen last changes what text becomes."""

    scale = 1.0

    def get_image_features(self, pixel_values):
        self.scale = 2.0
        return super().get_image_features(pixel_values)

    def scaled(self, hidden):
        scale, self.scale = self.scale, 1.0
        return hidden * scale


class Rejecting(Seeing):
    """Takes no image of any shape that is known."""

    def seen(self, pixel_values):
        raise TypeError("no image is good enough")


class Samples(Seeing):
    """Wants (samples, images, channels, height, width), which its config does not say."""

    def get_image_features(self, pixel_values):
        assert pixel_values.ndim == 5
        return super().get_image_features(pixel_values.flatten(0, 1))


def full(kind):
    """Of a size that is cut for the trial; without memory."""
    vision = Config(hidden_size=64, image_size=4 * SIDE, patch_size=SIDE)
    told = Config(
        vision_config=vision, hidden_size=128, vocab_size=1000, image_token_id=IMAGE, model_type="x"
    )
    return kind(told)


def tried(kind, *media):
    return neutral.observed(full(kind), media)


@pytest.mark.parametrize("kind", [Seeing, Behind, Samples])
def test_proven_it_runs_and_reaches_what_an_image_does_and_changes_no_bit(kind):
    model = full(kind)
    facts = neutral.observed(model, ("image",))
    (answer,) = facts.blanks
    assert (answer.kind, answer.proven, answer.reason) == ("image", True, "")
    assert answer.behind == (("multi_modal_projector",) if kind is Behind else ())
    assert (answer.candidate is None) == (kind is not Samples)
    assert neutral.why_not(model, facts) == neutral.untried(model, facts) == ""
    ids = torch.arange(4)[None]
    before = model(ids).logits
    handle = blank_input.install(model, **neutral.recipe(model, facts))
    after = model(ids).logits
    assert torch.equal(before, after)
    assert (handle.padded, handle.fault) == (1, "")
    after.sum().backward()
    for module in (model.vision_tower, model.multi_modal_projector):
        assert all(weight.grad is not None for weight in module.parameters())
        assert not any(weight.grad.any() for weight in module.parameters())


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Twice, "2 tensors that a real input trains would get no gradient, such as mixing.bias"),
        (Unused, "it reaches second_projector.bias, which a real input does not train"),
        (Leaking, "it changes the loss of a text row from "),
        (Again, "it runs vision_tower.linear where a real input runs language_model.words"),
    ],
)
def test_refuted_it_says_what_is_wrong(kind, reason):
    facts = tried(kind)
    (answer,) = facts.blanks
    assert answer.proven is False
    assert answer.reason.startswith(reason)
    assert neutral.why_not(full(kind), facts).startswith(
        f"tried on a small copy of {kind.__name__}: {reason}"
    )


def test_not_tried_it_is_made_as_the_class_names_it_and_that_is_said(monkeypatch):
    facts = tried(Rejecting)
    (answer,) = facts.blanks
    assert answer.proven is None
    assert neutral.why_not(full(Rejecting), facts) == ""
    assert "no image is good enough" in neutral.untried(full(Rejecting), facts)
    monkeypatch.setenv("VLMGUARD_OBSERVE", "off")
    off = neutral.observed(full(Seeing))
    assert neutral.why_not(full(Seeing), off) == ""
    assert "switched off" in neutral.untried(full(Seeing), off)


def test_what_was_proven_of_one_class_is_not_used_for_another():
    facts = tried(Behind)
    assert neutral.recipe(full(Behind), facts)["behind"]
    assert not neutral.recipe(full(Seeing), facts)["behind"]


def test_only_the_kinds_that_are_asked_for_are_tried():
    assert tried(Seeing, "image").blank("image").proven
    assert tried(Seeing, "audio").blanks == ()
    assert "no get_audio_features" in neutral.why_not(
        full(Seeing), tried(Seeing, "audio"), ("audio",)
    )


def test_a_trial_leaves_the_random_numbers_that_would_have_come():
    torch.manual_seed(3)
    model = full(Samples)
    state = torch.get_rng_state()
    facts = neutral.observed(model)
    neutral.recipe(model, facts)["build"](model, "image")
    assert torch.equal(torch.get_rng_state(), state)


def test_a_fault_in_the_trial_leaves_the_rest_of_the_observation():
    def broken(copy, tries):
        raise RuntimeError("no")

    facts = observer.observe(full(Seeing), blank=broken, cache=False)
    assert facts.of("image")
    assert [each.proven for each in facts.blanks] == [False]


def test_answers_are_kept_on_disk_as_they_are():
    facts = tried(Behind)
    assert from_data(to_data(facts)) == facts
    assert Tried("image", True, behind=("multi_modal_projector",)) in facts.blanks
