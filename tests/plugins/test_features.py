"""Sounds and images of a model that names no method for their features: its parts, tried first."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.plugins.toys import Config
from vlmguard_torch.blank import blank_input, neutral
from vlmguard_torch.layout import by_structure, features, model_layout, towers
from vlmguard_torch.media import blank_media
from vlmguard_torch.observe.observed import Observed, Tried
from vlmguard_transformers.profile import Profile

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
    assert blank_input.guessed(model) is guessed
    assert not features.known(model, "image")
    if known:
        made = blank_media.from_config(model, "audio")
        assert made["input_features"].shape == (1, MELS, FRAMES)
        assert features.of(model, "audio")(**made).shape == (1, FRAMES, WIDTH)
    else:
        with pytest.raises(AttributeError):
            features.of(model, "audio")


def test_text_runs_the_tower_on_silence_and_stays_the_same():
    model = Hearing()
    ids = torch.arange(4)[None]
    before = model(ids)
    assert model_layout.find(model).kinds == neutral.kinds(model) == ("audio",)
    handle = blank_input.install(model)
    done = model(ids)
    assert torch.equal(done, before)
    assert (handle.padded, handle.fault) == (1, "")
    done.sum().backward()
    for module in (model.audio_tower, model.multi_modal_projector):
        assert all(not p.grad.any() for p in module.parameters())
    model(ids, torch.ones(1, MELS, FRAMES))
    assert handle.padded == 1
    handle.close()


SIDE = 4


class Pixels(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3 * SIDE * SIDE, 5)

    def forward(self, pixel_values, patch_attention_mask=None):
        return SimpleNamespace(last_hidden_state=self.linear(pixel_values.flatten(1))[:, None])


class Grid(nn.Module):
    """Flat patches, one token of four; what it returns is in the language model's width."""

    def __init__(self):
        super().__init__()
        self.patch_embed, self.merger = nn.Linear(3 * 2 * 2, 5), nn.Linear(5, WIDTH)

    def forward(self, hidden_states, grid_thw):
        assert int(grid_thw.prod()) == len(hidden_states)
        return self.merger(self.patch_embed(hidden_states).view(-1, 4, 5).mean(1))


class Looking(nn.Module):
    """As Idefics3 before transformers 4.52: no method for its features, its parts in its forward;
    and a parameter of its own, as LLaVA-NeXT has then."""

    def __init__(self, tower=None, connector=None):
        super().__init__()
        seen = Config(image_size=SIDE, patch_size=2, num_channels=3, spatial_merge_size=2)
        self.config = Config(vision_config=seen, image_token_id=39, vocab_size=40, model_type="x")
        self.vision_model, self.connector = tower or Pixels(), connector or nn.Linear(5, WIDTH)
        self.newline, self.unnamed = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(1))
        self.language_model = Language()

    def get_input_embeddings(self):
        return self.language_model.words

    def forward(self, input_ids, pixel_values=None):
        hidden = self.get_input_embeddings()(input_ids)
        if pixel_values is not None:
            seen = self.vision_model(pixel_values).last_hidden_state
            hidden = hidden + self.connector(seen) + self.newline
        return self.language_model(inputs_embeds=hidden)


class Films(Looking):
    """As Qwen2-VL before transformers 4.52: the tower projects itself, and sees videos too."""

    def __init__(self):
        super().__init__(Grid())
        self.connector = None

    def forward(self, input_ids, pixel_values=None, image_grid_thw=None, pixel_values_videos=None,
                video_grid_thw=None):  # fmt: skip
        hidden = self.get_input_embeddings()(input_ids)
        for pixels, grid in ((pixel_values, image_grid_thw), (pixel_values_videos, video_grid_thw)):
            if pixels is not None:
                hidden = hidden + self.vision_model(pixels, grid_thw=grid).mean(0)
        return self.language_model(inputs_embeds=hidden)


class Masked(nn.Linear):
    def forward(self, states, attention_mask):
        return super().forward(states)


class Queries(Pixels):
    def forward(self, pixel_values, queries):
        return super().forward(pixel_values)


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        (Looking(), ("image",)),
        (Films(), ("image", "video")),
        (Looking(connector=Masked(5, WIDTH)), ()),  # Idefics2: it wants more than the states
        (Looking(tower=Queries()), ()),
        (Seeing(), ()),  # no pixels go into it
    ],
)
def test_what_computes_the_features_of_an_image(model, kinds):
    assert model_layout.features_of(model) == kinds
    assert blank_input.guessed(model) is bool(kinds)
    if not kinds:
        assert blank_input.possible(model)
        return
    for kind in kinds:
        made = blank_media.fit(model, kind, blank_media.from_config(model, kind))
        assert features.of(model, "image")(**made).shape[-1] == WIDTH


@pytest.mark.parametrize("kind", [Looking, Films])
def test_text_runs_the_tower_on_a_blank_and_stays_the_same(kind):
    model = kind()
    ids = torch.arange(4)[None]
    before = model(ids)
    handle = blank_input.install(model, kinds=neutral.kinds(model))
    done = model(ids)
    assert torch.equal(done, before)
    assert (handle.padded, handle.fault) == (1, "")
    done.sum().backward()
    reached = {name for name, p in model.named_parameters() if p.grad is not None}
    named = {"newline"} if kind is Looking else set()
    assert reached >= {n for n, _ in model.named_parameters() if n.startswith("vision_model")}
    assert reached & {"newline", "unnamed"} == named
    assert not any(model.get_parameter(name).grad.any() for name in named)
    handle.close()


class Speaking(Hearing):
    """As Granite Speech: no name of a module tells what hears."""

    def __init__(self):
        super().__init__()
        self.encoder, self.projector_ = self.audio_tower, self.multi_modal_projector
        del self.audio_tower, self.multi_modal_projector

    def get_audio_features(self, input_features):
        return self.projector_(self.encoder(input_features).last_hidden_state)


def test_towers_without_a_name_that_tells_are_what_lies_beside_the_language_model():
    found = by_structure.unnamed(Speaking())
    assert found == {"audio": ("encoder", "projector_"), "llm": ("language_model",)}
    outer = nn.Module()
    outer.model, outer.get_input_embeddings = Speaking(), lambda: outer.model.language_model.words
    assert by_structure.unnamed(outer)["audio"] == ("model.encoder", "model.projector_")
    assert Profile().towers(SimpleNamespace(model=Hearing())) == towers.by_name(Hearing())
    assert by_structure.unnamed(Language()) == {}


def test_a_guess_without_a_row_that_proves_it_is_not_used():
    found = f"{Looking.__module__}.Looking"
    unproved = Observed("observed", model=found, blanks=(Tried("image", None, "no row"),))
    assert "image: no row, and the class names no method" in neutral.why_not(Looking(), unproved)
    proved = Observed("observed", model=found, blanks=(Tried("image", True),))
    assert neutral.why_not(Looking(), proved) == ""
