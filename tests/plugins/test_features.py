"""Audio of a model that names no method for its features: its parts, tried before they are used."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.plugins.toys import Config
from vlmguard_torch import blank, features, inputs, neutral, places

MELS, FRAMES, WIDTH = 4, 16, 6


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(MELS, 5)

    def forward(self, input_features, attention_mask=None):
        return SimpleNamespace(last_hidden_state=self.linear(input_features.transpose(1, 2)))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.linear = nn.Embedding(40, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs_embeds):
        return self.linear(inputs_embeds)


class Hearing(nn.Module):
    def __init__(self):
        super().__init__()
        told = Config(num_mel_bins=MELS, max_source_positions=FRAMES // 2)
        self.config = Config(audio_config=told, audio_token_id=39, vocab_size=40)
        self.audio_tower, self.multi_modal_projector = Tower(), nn.Linear(5, WIDTH)
        self.language_model = Language()

    def get_input_embeddings(self):
        return self.language_model.words

    def forward(self, input_ids, input_features=None):
        hidden = self.get_input_embeddings()(input_ids)
        if input_features is not None:
            states = self.audio_tower(input_features).last_hidden_state
            hidden = hidden + self.multi_modal_projector(states).mean()
        return self.language_model(inputs_embeds=hidden)


class Named(Hearing):
    def get_audio_features(self, input_features):
        return self.multi_modal_projector(self.audio_tower(input_features).last_hidden_state)


class Seeing(Hearing):
    def __init__(self):
        super().__init__()
        self.vision_tower = nn.Linear(2, 2)


class Deaf(Hearing):
    def forward(self, input_ids):
        return self.language_model(inputs_embeds=self.get_input_embeddings()(input_ids))


@pytest.mark.parametrize(
    ("kind", "known", "guessed"),
    [(Hearing, True, True), (Named, True, False), (Seeing, False, False), (Deaf, False, False)],
)
def test_what_computes_the_features_of_audio(kind, known, guessed):
    model = kind()
    assert features.known(model, "audio") is known
    assert features.guessed(model, "audio") is guessed
    assert blank.guessed(model) is guessed
    assert not features.known(model, "image")
    if known:
        made = inputs.from_config(model, "audio")
        assert made["input_features"].shape == (1, MELS, FRAMES)
        assert features.of(model, "audio")(**made).shape == (1, FRAMES, WIDTH)
    else:
        with pytest.raises(AttributeError):
            features.of(model, "audio")


def test_text_runs_the_tower_on_silence_and_stays_the_same():
    model = Hearing()
    ids = torch.arange(4)[None]
    before = model(ids)
    assert places.find(model).kinds == neutral.kinds(model) == ("audio",)
    handle = blank.install(model)
    done = model(ids)
    assert torch.equal(done, before)
    assert (handle.padded, handle.fault) == (1, "")
    done.sum().backward()
    for module in (model.audio_tower, model.multi_modal_projector):
        assert all(not p.grad.any() for p in module.parameters())
    model(ids, torch.ones(1, MELS, FRAMES))
    assert handle.padded == 1
    handle.close()
