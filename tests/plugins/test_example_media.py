"""Pixels and sound for models whose forward takes one shape alone."""

from __future__ import annotations

import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.plugins.toys import Config  # noqa: E402
from vlmguard_torch.observe import example_media, example_rows, row_trace  # noqa: E402

WIDTH = 8


class Taking(torch.nn.Module):
    """Puts features where the placeholders are, and asks for as many of one as of the other."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self.config = Config(image_token_id=900, audio_token_id=901, **fields)

    def placed(self, input_ids: Any, features: Any) -> Any:
        hidden = torch.zeros(*input_ids.shape, WIDTH)
        tokens = int((input_ids >= 900).sum())
        if tokens != len(features):
            raise ValueError(f"tokens: {tokens}, features: {len(features)}")
        hidden[input_ids >= 900] = features
        return types.SimpleNamespace(loss=hidden.sum())


class Waves(Taking):
    """As VibeVoice: the mask has no channels, and counts whole hops."""

    HOP = 3200

    def get_audio_features(self, input_values: Any, padding_mask: Any) -> Any:
        hops = input_values.shape[-1] // self.HOP
        asked = -(-padding_mask.sum(-1) // self.HOP)
        return torch.ones(len(input_values), hops, WIDTH)[torch.arange(hops) < asked[:, None]]

    def forward(
        self, input_ids, attention_mask, labels, input_values=None, padding_mask=None
    ) -> Any:
        assert padding_mask.ndim == 2
        return self.placed(input_ids, self.get_audio_features(input_values, padding_mask))


class Hops(Waves):
    HOP = 1920


class Patches(Taking):
    """As Inkling: a patch a row, channels last, no grid."""

    def get_image_features(self, pixel_values: Any) -> Any:
        assert pixel_values.shape[1:] == (2, 5, 5, 3)
        return torch.ones(len(pixel_values), 1, WIDTH)

    def forward(self, input_ids, attention_mask, labels, pixel_values=None) -> Any:
        return self.placed(input_ids, self.get_image_features(pixel_values)[:, 0])


class Grids(Taking):
    """As Nemotron Omni: flat patches, and a grid without frames."""

    def get_image_features(self, pixel_values: Any, image_grid_hw: Any) -> Any:
        assert pixel_values.shape == (int(image_grid_hw.prod(-1).sum()), 3 * 5**2)
        return torch.ones(len(pixel_values) // 4, WIDTH)

    def forward(
        self, input_ids, attention_mask, labels, pixel_values=None, image_grid_hw=None
    ) -> Any:
        return self.placed(input_ids, self.get_image_features(pixel_values, image_grid_hw))


class Flat(Taking):
    """As Fuyu: no tower, flat patches under a name of their own."""

    def forward(self, input_ids, attention_mask, labels, image_patches=None) -> Any:
        assert image_patches.shape[::2] == (1, 3 * 5**2)
        return self.placed(input_ids, torch.ones(image_patches.shape[1], WIDTH))


class Sides(Taking):
    """As Perception LM: the side is told to timm's model alone."""

    def forward(self, input_ids, attention_mask, labels, pixel_values=None) -> Any:
        assert pixel_values.shape[-2:] == (448, 448)
        return self.placed(input_ids, torch.ones(2, WIDTH))


class Squares(Taking):
    """As Inkling 2: a square of 2 x 2 patches a token, channels last, and a grid of tokens."""

    def get_image_features(self, pixel_values: Any, image_grid_thw: Any) -> Any:
        assert pixel_values.shape == (int(image_grid_thw.prod(-1).sum()), 10, 10, 3)
        return torch.ones(len(pixel_values), WIDTH)

    def forward(
        self, input_ids, attention_mask, labels, pixel_values=None, image_grid_thw=None
    ) -> Any:
        return self.placed(input_ids, self.get_image_features(pixel_values, image_grid_thw))


class Tiles(Taking):
    """As Granite Docling: a mask of tiles, by which the pixels are picked."""

    def forward(
        self, input_ids, attention_mask, labels, pixel_values=None, pixel_attention_mask=None
    ) -> Any:
        picked = pixel_values[pixel_attention_mask]
        assert picked.shape[1:] == (3, 20, 20)
        return self.placed(input_ids, torch.ones(2 * len(picked), WIDTH))


class Crops(Taking):
    """As Molmo 2: flat patches of crops, which patches a token pools, and how many tokens."""

    def pooled(self, pixels: Any, pooling: Any, tokens: Any) -> Any:
        assert pixels.shape[1:] == (5 * 5, 3 * 5**2)
        assert pooling.unique().numel() == pooling.numel()
        picked = pixels.flatten(0, 1)[pooling]
        assert picked.shape[:2] == (int(tokens), 4)
        return torch.ones(len(picked), WIDTH)

    def get_image_features(
        self, pixel_values: Any, image_token_pooling: Any, image_grids: Any
    ) -> Any:
        low, high = image_grids[:, :2].prod(-1), image_grids[:, 2:].prod(-1)
        return self.pooled(pixel_values, image_token_pooling, (low + high).sum())

    def get_video_features(
        self, pixel_values_videos: Any, video_token_pooling: Any, video_grids: Any
    ) -> Any:
        return self.pooled(pixel_values_videos, video_token_pooling, video_grids.prod(-1).sum())

    def forward(
        self, input_ids, attention_mask, labels, pixel_values=None, image_token_pooling=None,
        image_grids=None, pixel_values_videos=None, video_token_pooling=None, video_grids=None,
    ) -> Any:  # fmt: skip
        image = pixel_values, image_token_pooling, image_grids
        video = pixel_values_videos, video_token_pooling, video_grids
        found = self.get_video_features(*video) if image[0] is None else None
        return self.placed(input_ids, self.get_image_features(*image) if found is None else found)


def vision(**fields: Any) -> Config:
    return Config(model_type="some_vision", patch_size=5, **fields)


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        (Waves(), ["audio"]),
        (Hops(audio_config=Config(hop_length=1920)), ["audio"]),
        (Patches(vision_config=vision(temporal_patch_size=2)), ["image", "images"]),
        (Grids(vision_config=vision()), ["image", "images"]),
        (Flat(patch_size=5), ["image", "images"]),
        (Squares(vision_config=vision(spatial_merge_size=2)), ["image", "images"]),
        (Tiles(vision_config=vision(image_size=20)), ["image", "images"]),
        (Crops(vision_config=vision(image_size=25)), ["image", "images", "video"]),
        (Sides(vision_config=Config(model_args={"img_size": [448, 448]})), ["image"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Taking) else "",
)
def test_a_row_that_the_model_takes(model, kinds):
    rows = example_rows.Rows(model, row_trace.TooLong)
    assert set(kinds) <= set(example_rows.kinds_of(model))
    for kind in kinds:
        loss = rows.run(kind, lambda row: model(**row).loss)
        placeholders = int((rows.taken[kind]["input_ids"] >= 900).sum())
        assert float(loss) == WIDTH * placeholders > 0


def test_arguments_for_timm_that_are_none():
    """A config may have the field and nothing in it."""
    shape = example_media.Shape(Config(model_args=None, patch_size=5), "image")
    assert shape.side == 5 * 8
